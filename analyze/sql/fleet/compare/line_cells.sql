-- Answers: what did the lines cost on each host of each side?
-- Notes: The many figures are grouped by numbers before versions are looked at.
-- Parameters:
--   metric: name of the metric
-- Reads: compared_cells, compared_lines, compared_texts, fleet_figures
-- Columns:
--   number: of the line, by compared_lines
--   cell: number of the cell
--   value: sum over the lines with this number
--   variance: sum of theirs; those that are not sampled have none
-- Order: none
WITH sums AS (
    SELECT t.number_of_text, c.version, c.cell, sum(f.value) AS value, sum(coalesce(f.variance, 0)) AS variance
    FROM fleet_figures f
    JOIN compared_cells c ON f.trace = c.trace
    JOIN compared_texts t ON f.line IS NOT DISTINCT FROM t.line AND f.text IS NOT DISTINCT FROM t.text
        AND f.file IS NOT DISTINCT FROM t.file AND f.function IS NOT DISTINCT FROM t.function
        AND f.first_line IS NOT DISTINCT FROM t.first_line
    WHERE f.scope = 'line' AND f.metric = $metric
    GROUP BY t.number_of_text, c.version, c.cell
)
SELECT l.number, s.cell, sum(s.value) AS value, sum(s.variance) AS variance
FROM sums s
JOIN compared_lines l ON s.number_of_text = l.number_of_text AND s.version IS NOT DISTINCT FROM l.version
GROUP BY l.number, s.cell
