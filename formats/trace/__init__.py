"""The trace, one Parquet file: its columns, its writer, and the check of its integrity."""
