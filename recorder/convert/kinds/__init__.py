"""From records of each kind to the rows of the trace."""
