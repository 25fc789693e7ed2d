-- Answers: what did each line cost in each part of each cell, by all metrics?
-- Notes: It is the one statement of a comparison that reads the figures of all lines, so they are grouped by two numbers.
-- Reads: compared_cells, compared_texts, fleet_figures
-- Columns:
--   code: as in compared_texts
--   part: as in compared_cells
--   value: sum over the traces
--   variance: sum of theirs; those that are not sampled have none
-- Order: none
SELECT t.code, c.part, sum(f.value) AS value, coalesce(sum(f.variance), 0) AS variance
FROM fleet_figures f
JOIN compared_cells c ON f.trace = c.trace
JOIN compared_texts t ON f.metric = t.metric AND f.line IS NOT DISTINCT FROM t.line
    AND f.text IS NOT DISTINCT FROM t.text AND f.file IS NOT DISTINCT FROM t.file
    AND f.function IS NOT DISTINCT FROM t.function AND f.first_line IS NOT DISTINCT FROM t.first_line
WHERE f.scope = 'line'
GROUP BY t.code, c.part
