"""The version of scalene-trace, the same as in pyproject.toml (asking the installed metadata takes 20 ms)."""

VERSION = "0.1.0"
