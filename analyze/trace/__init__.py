"""Opened traces: views in a sealed DuckDB, the queries over them, and what was selected."""
