-- Answers: which files could not be read, and why?
-- Reads: fleet_traces
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
-- Order: path
SELECT path, trace_id, host, labels, start_ns, wall_ns, recorded_ns, python, program, processes, losses, reason
FROM fleet_traces WHERE reason IS NOT NULL ORDER BY path, trace_id
