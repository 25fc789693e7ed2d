"""Profiles that are sent to other programs (docs/design/upload.md)."""
