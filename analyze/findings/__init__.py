"""What a person would say first about a recording: at most six findings, only those that the figures bear."""
