-- Answers: what does each line, or function, cost in the selected traces together, the costliest first?
-- Notes: A line is the same in two traces if file, function and text are, and its distance from the first line of the
--   function: so it may have moved. A function is the same if file, name and text are.
-- Parameters:
--   by: name of the figure that decides the order
--   most: how many there are at most, besides what is on no line of the user's
-- Reads: figure_parts
-- Columns:
--   place: in the order, from 1
--   file: as in figure_parts; where it stood on the last day
--   line: as in figure_parts; where it stood on the last day
--   function: as in figure_parts; where it stood on the last day
--   first_line: as in figure_parts; where it stood on the last day
--   text: as in figure_parts; where it stood on the last day
--   distance: of the line from the first line of the function; NULL = of functions
--   metric: name of a figure
--   value: its sums over the traces
--   variance: its sums over the traces
--   samples: its sums over the traces
--   highest: the highest of a single trace
--   exposed: its sums over the traces that have an exposure
-- Order: place, then metric
WITH sums AS (
    SELECT file, function, text, line - first_line AS distance, metric, sum(value) AS value,
        sum(variance) AS variance, sum(samples) AS samples, max(highest) AS highest, sum(exposed) AS exposed
    FROM figure_parts GROUP BY file, function, text, line - first_line, metric
), places AS (
    SELECT file, function, text, line - first_line AS distance, max_by(line, coalesce(last_day, 0)) AS line,
        max_by(first_line, coalesce(last_day, 0)) AS first_line,
        sum(CASE WHEN metric = $by THEN value ELSE 0 END) AS value
    FROM figure_parts GROUP BY file, function, text, line - first_line
), ranked AS (
    SELECT *, row_number() OVER (
        ORDER BY CASE WHEN file IS NULL THEN 1 ELSE 0 END, value DESC, file, line, first_line, function, text) AS place
    FROM places
)
SELECT r.place, r.file, r.line, r.function, r.first_line, r.text, r.distance, m.metric, m.value,
    m.variance, m.samples, m.highest, m.exposed
FROM ranked r JOIN sums m ON m.file IS NOT DISTINCT FROM r.file AND m.function IS NOT DISTINCT FROM r.function
    AND m.text IS NOT DISTINCT FROM r.text AND m.distance IS NOT DISTINCT FROM r.distance
WHERE r.place <= $most OR r.file IS NULL
ORDER BY r.place, m.metric
