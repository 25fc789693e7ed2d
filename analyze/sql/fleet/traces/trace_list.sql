-- Answers: which traces are selected?
-- Reads: fleet_traces, selected_traces
-- Columns:
--   path: as in fleet_traces
--   trace_id: as in fleet_traces
--   host: as in fleet_traces
--   labels: as in fleet_traces
--   start_ns: as in fleet_traces
--   wall_ns: as in fleet_traces
--   recorded_ns: as in fleet_traces
--   python: as in fleet_traces
--   program: as in fleet_traces
--   processes: as in fleet_traces
--   losses: as in fleet_traces
--   reason: as in fleet_traces
-- Order: start, then path
SELECT path, trace_id, t.host, labels, start_ns, wall_ns, recorded_ns, python, program, processes, losses, reason
FROM fleet_traces t JOIN selected_traces s ON t.trace = s.trace
ORDER BY start_ns, path, trace_id
