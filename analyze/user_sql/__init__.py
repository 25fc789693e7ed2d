"""SQL that a user brings: what is run, what is refused, and the same views for a plain DuckDB."""
