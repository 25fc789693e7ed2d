"""What a trace is: record layout, spool reader, schema, Parquet writer, losses, errors."""
