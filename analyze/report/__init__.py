"""The report and its tables: lines, functions, libraries, threads, processes, tasks, memory, timeline."""
