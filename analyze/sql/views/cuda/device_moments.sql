-- Answers: when, within the time window, did all recorded processes together have most device memory?
-- A process has its blocks until it frees them or ends.
-- Reads: device_allocations, processes, selection
-- Stored: no
-- Columns:
--   trace: number of the trace, from 1; traces in which no block of device memory was allocated are absent
--   t_ns [ns]: the first such moment, not before the start of the window
--   device_bytes [bytes]: in blocks that CUDA libraries allocated
-- Order: none
WITH lives AS (
    SELECT a.trace, a.t_ns, coalesce(a.t_ns + lifetime_ns, p.end_ns) AS gone_ns, coalesce(bytes, 0) AS bytes
    FROM device_allocations a LEFT JOIN processes p ON p.trace = a.trace AND p.process = a.process, selection
    WHERE is_selected(selection, a.process)
), changes AS (
    SELECT trace, t_ns, bytes FROM lives
    UNION ALL SELECT trace, gone_ns, -bytes FROM lives WHERE gone_ns IS NOT NULL
), held AS (
    SELECT trace, t_ns, sum(sum(bytes)) OVER by_time AS device_bytes, lead(t_ns) OVER by_time AS next_ns
    FROM changes GROUP BY trace, t_ns WINDOW by_time AS (PARTITION BY trace ORDER BY t_ns)
)
SELECT trace, greatest(t_ns, from_ns) AS t_ns, device_bytes::BIGINT AS device_bytes
FROM held, selection
WHERE is_in_window(selection, held.t_ns, next_ns - 1)
QUALIFY row_number() OVER (PARTITION BY trace ORDER BY device_bytes DESC, held.t_ns) = 1
