"""What a person would say first about a recording: three to five findings, only those that the figures bear."""
