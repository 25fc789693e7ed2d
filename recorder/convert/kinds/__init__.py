"""Makes the rows of each kind from the records of the spool."""
