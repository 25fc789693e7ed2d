-- Answers: which lines has any trace, whatever its version, and by which metrics?
-- Parameters:
--   metrics: names of the metrics
-- Reads: fleet_figures
-- Columns:
--   code: number of the metric of the line, from 1
--   number_of_text: number of the same file, function, first line, line and text in any version, from 1
--   metric: as in fleet_figures
--   file: as in fleet_figures
--   function: as in fleet_figures
--   first_line: as in fleet_figures
--   line: as in fleet_figures
--   text: as in fleet_figures
-- Order: none
WITH texts AS (
    SELECT DISTINCT metric, file, function, first_line, line, text FROM fleet_figures
    WHERE scope = 'line' AND list_contains($metrics, metric)
)
SELECT row_number() OVER (ORDER BY metric, file, function, first_line, line, text) AS code,
    dense_rank() OVER (ORDER BY file, function, first_line, line, text) AS number_of_text,
    metric, file, function, first_line, line, text
FROM texts
