"""Resolves native addresses to loaded images, and offsets in images to function names."""
