-- Answers: for how long was a metric recorded on each host of each side, and what is its total there?
-- Notes: Zeros are not stored. So a trace without a total of the metric did not record it, and its time does not count.
-- Parameters:
--   metric: name of the metric
-- Reads: compared_cells, fleet_figures
-- Columns:
--   cell: number of the cell
--   host: the host, and the number of the side
--   side: the host, and the number of the side
--   traces: number of traces
--   exposure: sum of theirs
--   value: sum of their totals
-- Order: cell
SELECT c.cell, c.host, c.side, count(*) AS traces, sum(c.exposure) AS exposure, sum(f.value) AS value
FROM fleet_figures f JOIN compared_cells c ON f.trace = c.trace
WHERE f.scope = 'total' AND f.metric = $metric AND f.value > 0
GROUP BY c.cell, c.host, c.side
ORDER BY c.cell
