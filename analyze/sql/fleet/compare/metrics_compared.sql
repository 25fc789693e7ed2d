-- Answers: which metrics have the traces that are compared, and on how many sides?
-- Reads: compared_traces, fleet_figures
-- Columns:
--   metric: name of a metric that has a total
--   sides: number of sides on which it has one
-- Order: metric
SELECT f.metric, count(DISTINCT t.side) AS sides
FROM fleet_figures f JOIN compared_traces t ON f.trace = t.trace
WHERE f.scope = 'total' GROUP BY f.metric ORDER BY f.metric
