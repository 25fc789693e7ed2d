"""Exports traces to the formats of other programs (docs/exports.md), one module for each format."""
