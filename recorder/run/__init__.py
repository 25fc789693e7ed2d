"""Runs a program and records it: launch, supervision, draining of the spool, GPU samples, commands."""
