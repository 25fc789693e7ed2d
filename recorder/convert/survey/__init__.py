"""The first pass over a spool, and what every kind of record needs of it: the survey, the stacks, columns of records."""
