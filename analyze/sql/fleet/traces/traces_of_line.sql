-- Answers: in which of the selected traces does a line, or a file, have a figure?
-- Notes: The line is the one that had this number on the last day; in other traces it may have another one (figure_sums). It
--   is charged to the function that figure_parts charges it to.
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
--   recorded_ns: as in fleet_traces
--   python: as in fleet_traces
--   program: as in fleet_traces
--   processes: as in fleet_traces
--   losses: as in fleet_traces
--   reason: as in fleet_traces
--   value: the figure, in its unit; of a file, the sum over its lines
-- Order: the figure, descending, then path
WITH figures AS (
    SELECT f.trace, day, line, function, first_line, text, metric, value
    FROM fleet_figures f JOIN selected_traces s ON f.trace = s.trace WHERE f.scope = 'line' AND f.file = $file
), candidates AS (
    SELECT line, text, function, first_line, count(*) AS number FROM figures GROUP BY line, text, function, first_line
), owners AS (
    SELECT line, text, function, first_line,
        row_number() OVER (PARTITION BY line, text ORDER BY number DESC, function, first_line) AS place
    FROM candidates
), own AS (
    SELECT f.trace, f.day, f.line, o.function, f.text, f.line - o.first_line AS distance, f.metric, f.value
    FROM figures f JOIN owners o ON o.place = 1 AND f.line = o.line AND f.text IS NOT DISTINCT FROM o.text
), numbered AS (
    SELECT function, text, distance,
        row_number() OVER (ORDER BY max(day) DESC, count(*) DESC, function, text, distance) AS place
    FROM own WHERE line = $line GROUP BY function, text, distance
), parts AS (
    SELECT o.trace, sum(o.value) AS value
    FROM own o LEFT JOIN numbered n ON n.place = 1 AND n.function IS NOT DISTINCT FROM o.function
        AND n.text IS NOT DISTINCT FROM o.text AND n.distance IS NOT DISTINCT FROM o.distance
    WHERE o.metric = $metric AND ($line IS NULL OR n.place = 1) GROUP BY o.trace
)
SELECT path, trace_id, host, labels, start_ns, wall_ns, recorded_ns, python, program, processes, losses, reason, value
FROM fleet_traces t JOIN parts p ON t.trace = p.trace
ORDER BY value DESC, path, trace_id
