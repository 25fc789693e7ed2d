"""Runs SQL of users over the views of traces, and writes the same views for a plain DuckDB."""
