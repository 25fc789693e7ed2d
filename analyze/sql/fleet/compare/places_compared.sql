-- Answers: which lines have the versions that are compared, and what did each of them cost on both sides?
-- Parameters:
--   metrics: names of the metrics
-- Reads: compared_cells, fleet_figures
-- Columns:
--   place: number of the line of this version, from 1
--   number_of_text: number of the same file, function, first line, line and text in any version, from 1
--   version: as in fleet_figures and fleet_traces
--   file: as in fleet_figures and fleet_traces
--   function: as in fleet_figures and fleet_traces
--   first_line: as in fleet_figures and fleet_traces
--   line: as in fleet_figures and fleet_traces
--   text: as in fleet_figures and fleet_traces
--   metric: name of a metric
--   before: its sums on the side 0, and on all others
--   after: its sums on the side 0, and on all others
-- Order: none
WITH sums AS (
    SELECT c.version, f.file, f.function, f.first_line, f.line, f.text, f.metric,
        sum(CASE WHEN c.side = 0 THEN f.value ELSE 0 END) AS before,
        sum(CASE WHEN c.side = 0 THEN 0 ELSE f.value END) AS after
    FROM fleet_figures f JOIN compared_cells c ON f.trace = c.trace
    WHERE f.scope = 'line' AND list_contains($metrics, f.metric)
    GROUP BY c.version, f.file, f.function, f.first_line, f.line, f.text, f.metric
)
SELECT dense_rank() OVER (ORDER BY version, file, function, first_line, line, text) AS place,
    dense_rank() OVER (ORDER BY file, function, first_line, line, text) AS number_of_text, version, file, function,
    first_line, line, text, metric, before, after
FROM sums
