-- Answers: in which of the selected traces does a line, or a file, have a figure?
-- Parameters:
--   file: path of the file
--   line: number of the line; NULL = all lines of the file
--   metric: name of the figure
-- Reads: fleet_figures, fleet_traces, selected_traces
-- Columns:
--   path: as in fleet_traces
--   trace_id: as in fleet_traces
--   host: as in fleet_traces
--   labels: as in fleet_traces
--   start_ns: as in fleet_traces
--   wall_ns: as in fleet_traces
--   python: as in fleet_traces
--   program: as in fleet_traces
--   processes: as in fleet_traces
--   losses: as in fleet_traces
--   reason: as in fleet_traces
--   value: the figure, in its unit; of a file, the sum over its lines
-- Order: the figure, descending, then path
WITH parts AS (
    SELECT f.trace, sum(f.value) AS value
    FROM fleet_figures f JOIN selected_traces s ON f.trace = s.trace
    WHERE f.scope = 'line' AND f.metric = $metric AND f.file = $file
        AND ($line IS NULL OR f.line = $line)
    GROUP BY f.trace
)
SELECT path, trace_id, host, labels, start_ns, wall_ns, python, program, processes, losses, reason, value
FROM fleet_traces t JOIN parts p ON t.trace = p.trace
ORDER BY value DESC, path, trace_id
