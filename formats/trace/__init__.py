"""The trace: the columns of its one Parquet file, how it is written and how it is checked."""
