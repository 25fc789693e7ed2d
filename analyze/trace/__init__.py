"""Opens traces as views in a sealed DuckDB: queries, selection, metadata and source text."""
