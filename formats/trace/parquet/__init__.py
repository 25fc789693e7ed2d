"""What Parquet's metadata consists of, and row groups that are written one at a time."""
