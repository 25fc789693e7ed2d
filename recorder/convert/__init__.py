"""Converts the spool and the recorder's own files into the tables of a trace."""
