-- Answers: what do the selected traces cost together?
-- Reads: fleet_figures, selected_traces
-- Columns:
--   metric: name of the figure
--   value: its sum over the traces
--   variance: of a figure of lines, the sum of the variances of all lines
--   highest: the highest of a single trace
--   exposed: its sum over the traces that have an exposure
-- Order: metric
SELECT metric, sum(value) AS value, sum(variance) AS variance, max(value) AS highest,
    sum(CASE WHEN exposure > 0 THEN value ELSE 0 END) AS exposed
FROM fleet_figures f JOIN selected_traces s ON f.trace = s.trace
WHERE f.scope = 'total' GROUP BY metric ORDER BY metric
