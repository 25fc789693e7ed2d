"""scalene-analyze: a module for each group of commands."""
