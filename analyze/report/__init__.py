"""The tables of a report: lines, functions, libraries, threads, tasks, memory, timeline."""
