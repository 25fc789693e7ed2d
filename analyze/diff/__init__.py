"""What changed between two versions of a program, and whether noise explains it."""
