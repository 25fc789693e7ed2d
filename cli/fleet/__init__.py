"""``scalene-analyze fleet``: questions about a folder of traces."""
