-- Answers: what do the CUDA calls of the selection add up to, by stack?
-- Reads: device_allocations, device_copies, device_moments, device_syncs, processes, selection
-- Stored: no
-- Columns:
--   trace, stack, h2d_bytes, d2h_bytes, d2d_bytes, h2h_bytes, unified_bytes, device_copy_s, device_sync_s
--   device_alloc_bytes, device_live_at_peak_bytes
-- Order: none
WITH calls AS (
    SELECT trace, process, thread, stack, t_ns, direction, bytes, duration_ns FROM device_copies
    UNION ALL BY NAME SELECT trace, process, thread, stack, t_ns, 'sync' AS direction, duration_ns FROM device_syncs
    UNION ALL BY NAME
    SELECT a.trace, a.process, thread, stack, a.t_ns, 'alloc' AS direction, bytes, coalesce(a.t_ns <= peak.t_ns
        AND coalesce(coalesce(a.t_ns + lifetime_ns, p.end_ns) > peak.t_ns, true), false) AS is_at_peak
    FROM device_allocations a LEFT JOIN processes p ON p.trace = a.trace AND p.process = a.process
        LEFT JOIN device_moments peak ON peak.trace = a.trace
)
SELECT trace, stack,
    coalesce(sum(bytes) FILTER (direction = 'h2d'), 0)::BIGINT AS h2d_bytes,
    coalesce(sum(bytes) FILTER (direction = 'd2h'), 0)::BIGINT AS d2h_bytes,
    coalesce(sum(bytes) FILTER (direction = 'd2d'), 0)::BIGINT AS d2d_bytes,
    coalesce(sum(bytes) FILTER (direction = 'h2h'), 0)::BIGINT AS h2h_bytes,
    coalesce(sum(bytes) FILTER (direction = 'unified'), 0)::BIGINT AS unified_bytes,
    coalesce(sum(duration_ns) FILTER (direction <> 'sync'), 0) / 1e9 AS device_copy_s,
    coalesce(sum(duration_ns) FILTER (direction = 'sync'), 0) / 1e9 AS device_sync_s,
    coalesce(sum(bytes) FILTER (direction = 'alloc'), 0)::BIGINT AS device_alloc_bytes,
    coalesce(sum(bytes) FILTER (is_at_peak), 0)::BIGINT AS device_live_at_peak_bytes
FROM calls, selection
WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, stack)
GROUP BY trace, stack
