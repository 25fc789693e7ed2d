"""scalene-record: options, messages, exit codes."""

import sys

#: The command line of scalene-record with this interpreter. ``-P``: the current folder has no say in what is imported.
COMMAND = (sys.executable, "-P", "-c", "from scalene_trace.cli.record.start import main; main()")
