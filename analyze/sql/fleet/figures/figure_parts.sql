-- Answers: what does each line, or function, cost in the selected traces, apart by where it stood in its file?
-- Notes: It is kept as the table figure_parts. A line that several functions share is that of the function with most rows.
-- Parameters:
--   scope: line or function
-- Reads: fleet_figures, selected_traces
-- Columns:
--   file: NULL = on no line of the user's
--   line: NULL = of functions, and on no line of the user's
--   text: source of the line, or of the function's first line
--   named: the function in fleet_figures
--   function: the function that the line is charged to
--   first_line: of that function
--   metric: name of a figure
--   value: its sums over the traces
--   variance: its sums over the traces
--   samples: its sums over the traces
--   highest: the highest of a single trace
--   exposed: its sums over the traces that have an exposure
--   last_day: the last day on which it was recorded, as a number (20261128): Spark sorts all rows for the largest text
-- Order: none
WITH selected AS (
    SELECT trace, exposure, CAST(replace(day, '-', '') AS INTEGER) AS day FROM selected_traces
), parts AS (
    SELECT file, line, text, function, first_line, metric, sum(value) AS value, sum(variance) AS variance,
        sum(samples) AS samples, max(value) AS highest,
        sum(CASE WHEN exposure > 0 THEN value ELSE 0 END) AS exposed, count(*) AS traces, max(day) AS last_day
    FROM fleet_figures f JOIN selected s ON f.trace = s.trace
    WHERE scope = $scope GROUP BY file, line, text, function, first_line, metric
), candidates AS (
    SELECT file, line, text, function, first_line, sum(traces) AS number
    FROM parts WHERE line IS NOT NULL GROUP BY file, line, text, function, first_line
), owners AS (
    SELECT file, line, text, function, first_line,
        row_number() OVER (PARTITION BY file, line, text ORDER BY number DESC, function, first_line) AS place
    FROM candidates
)
SELECT p.file, p.line, p.text, p.function AS named,
    CASE WHEN p.line IS NULL THEN p.function ELSE o.function END AS function,
    CASE WHEN p.line IS NULL THEN p.first_line ELSE o.first_line END AS first_line,
    metric, value, variance, samples, highest, exposed, last_day
FROM parts p LEFT JOIN owners o ON o.place = 1 AND p.file = o.file AND p.line = o.line
    AND p.text IS NOT DISTINCT FROM o.text
