"""With whose rights files are opened whose names come from a recorded program."""
