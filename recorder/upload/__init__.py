"""Traces that are closed while the program runs go to a URL (docs/design/upload.md)."""
