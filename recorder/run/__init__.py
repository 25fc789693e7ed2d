"""Runs a program and records it: start and supervision, the spool file, RSS and GPU samples, commands, snapshots.

Modules here are imported before the program starts, so none of them imports numpy or pyarrow at its top.
"""
