-- Answers: how busy was each device over time, and how much of its memory was in use, by process where that is known?
-- Only the program's part. An interval that reaches out of the time window is cut, and its work in proportion.
-- Reads: gpu_ticks, selection
-- Columns:
--   process: process id; NULL = of the whole device, whoever used it
--   device: place of the device, from 0
--   t_ns [ns]: start of the interval, from the start of the recording; of memory, when it was read
--   end_ns [ns]: end of the interval
--   busy_ns [ns]: for how much of the interval kernels ran; NULL = the row is about memory
--   memory_bytes [bytes]: memory in use from t_ns on; NULL = the row is about utilisation
-- Order: process, device, time
WITH cut AS (
    SELECT process, device, greatest(t_ns, from_ns) AS t_ns,
        least(t_ns + duration_ns, to_ns) AS end_ns, duration_ns, busy_ns
    FROM gpu_ticks, selection
    WHERE charged AND busy_ns IS NOT NULL AND duration_ns > 0
        AND is_selected(selection, process)
)
SELECT process, device, t_ns, end_ns, round(busy_ns * (end_ns - t_ns) / duration_ns)::BIGINT AS busy_ns,
    NULL::BIGINT AS memory_bytes
FROM cut WHERE end_ns > t_ns
UNION ALL
SELECT process, device, t_ns, any_value(t_ns + duration_ns) AS end_ns, NULL::BIGINT AS busy_ns,
    sum(memory_bytes)::BIGINT AS memory_bytes
FROM gpu_ticks, selection
WHERE charged AND memory_bytes IS NOT NULL AND is_selected(selection, t_ns, process)
GROUP BY process, device, t_ns
ORDER BY process NULLS FIRST, device, t_ns, end_ns
