"""Leaks: lines whose allocations stay until the end."""
