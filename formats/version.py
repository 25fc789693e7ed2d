"""The version of scalene-trace, as in pyproject.toml. (Reading it from the installed metadata would take 20 ms.)"""

VERSION = "0.1.0"
