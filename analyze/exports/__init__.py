"""Traces in the formats of other programs (docs/exports.md). Each module makes one format from a :class:`profile.Profile`."""
