"""The spool: records in shared memory, as the shim writes them and the recorder reads them."""
