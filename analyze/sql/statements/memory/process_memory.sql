-- Answers: how much memory did each process hold over time, as it told and as the recorder read?
-- Parameters: none (the table `selection` holds time window and processes)
-- Columns:
--   process: process id
--   t_ns [ns]: when, from the start of the recording
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
WHERE size_bytes IS NOT NULL AND coalesce(t_ns >= from_ns, true) AND coalesce(t_ns < to_ns, true)
    AND (process_ids IS NULL OR list_contains(process_ids, process))
GROUP BY process, series, t_ns ORDER BY process, series, t_ns
