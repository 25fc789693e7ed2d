"""The spool: a file of records that the shim writes into shared memory and the recorder reads."""
