-- Answers: how much memory did each process have over time, by its own counters and by its resident set?
-- Reads: heap_samples, memory_samples, rss_samples, selection
-- Columns:
--   process, t_ns
--   series: footprint (allocated minus freed) or rss (resident set)
--   size_bytes [bytes]: from then on
-- Order: process, series, time
WITH told AS (
    SELECT process, t_ns, 1 AS step, 'footprint' AS series, footprint_bytes AS size_bytes FROM memory_samples
    UNION ALL
    SELECT process, t_ns, 2, 'footprint', footprint_bytes FROM heap_samples
    UNION ALL
    SELECT process, t_ns, 1, 'rss', rss_bytes FROM rss_samples
)
SELECT process, t_ns, series, max_by(size_bytes, step) AS size_bytes
FROM told, selection
WHERE size_bytes IS NOT NULL AND is_selected(selection, t_ns, process)
GROUP BY process, series, t_ns ORDER BY process, series, t_ns
