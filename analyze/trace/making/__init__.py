"""Makes the views, tables and macros of opened traces when they are needed."""
