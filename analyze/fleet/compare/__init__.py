"""Compares the traces of a fleet with hosts as units: versions, days, hosts (docs/design/fleet.md)."""
