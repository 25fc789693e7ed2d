-- Answers: for how long was a metric recorded on each host of each side, and what is its total there?
-- Notes: Zeros are not stored. So a trace counts if it has any total that shows that the metric was recorded.
-- Parameters:
--   metric: name of the metric
--   shown_by: names of the metrics that show it, itself among them
--   of_host: does it count in all traces of a host if one of them shows it?
-- Reads: compared_cells, fleet_figures
-- Columns:
--   cell: number of the cell
--   host: the host, and the number of the side
--   side: the host, and the number of the side
--   traces: number of traces
--   exposure: sum of theirs
--   value: sum of their totals
-- Order: cell
WITH shown AS (
    SELECT c.host, f.trace, sum(CASE WHEN f.metric = $metric THEN f.value ELSE 0 END) AS total
    FROM fleet_figures f JOIN compared_cells c ON f.trace = c.trace
    WHERE f.scope = 'total' AND list_contains($shown_by, f.metric) AND f.value > 0
    GROUP BY c.host, f.trace
), hosts AS (
    SELECT DISTINCT host FROM shown WHERE $of_host
)
SELECT c.cell, c.host, c.side, count(*) AS traces, sum(c.exposure) AS exposure, sum(coalesce(s.total, 0)) AS value
FROM compared_cells c LEFT JOIN shown s ON c.trace = s.trace LEFT JOIN hosts h ON c.host = h.host
WHERE s.trace IS NOT NULL OR h.host IS NOT NULL
GROUP BY c.cell, c.host, c.side
ORDER BY c.cell
