"""Rotation: one recording becomes many traces (docs/design/rotation.md)."""
