"""Compares two versions of a program: the change of each line, and whether it is larger than noise."""
