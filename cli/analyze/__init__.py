"""scalene-analyze: a module for each group of commands."""

import sys

#: The command line of scalene-analyze with this interpreter. ``-P``: the current folder has no say in what is imported.
COMMAND = (sys.executable, "-P", "-c", "from scalene_trace.cli.analyze.start import main; main()")
