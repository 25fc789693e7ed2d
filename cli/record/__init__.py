"""scalene-record: options, messages, exit codes."""
