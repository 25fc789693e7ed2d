-- Answers: which files could not be read, and why?
-- Reads: fleet_traces
-- Columns:
--   path, trace_id, host, labels, start_ns, wall_ns, python, program, processes, losses, reason
-- Order: path
SELECT path, trace_id, host, labels, start_ns, wall_ns, python, program, processes, losses, reason
FROM fleet_traces WHERE reason IS NOT NULL ORDER BY path, trace_id
