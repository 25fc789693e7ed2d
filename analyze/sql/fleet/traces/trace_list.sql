-- Answers: which traces are selected?
-- Reads: fleet_traces, selected_traces
-- Columns:
--   path, trace_id, host, labels, start_ns, wall_ns, python, program, processes, losses, reason
-- Order: start, then path
SELECT path, trace_id, t.host, labels, start_ns, wall_ns, python, program, processes, losses, reason
FROM fleet_traces t JOIN selected_traces s ON t.trace = s.trace
ORDER BY start_ns, path, trace_id
