-- Answers: what do the CUDA calls of each stack that copy, or wait for a device, add up to in each piece of the time?
-- A row counts where it begins. Time before or after the pieces counts in the first or the last.
-- Parameters:
--   origin_ns: start of the first piece
--   bin_ns: length of a piece
--   bins: number of pieces
-- Reads: device_copies, device_syncs, selection
-- Columns:
--   stack, bin, h2d_bytes, d2h_bytes, d2d_bytes, h2h_bytes, unified_bytes
--   device_copy_us [us]: in calls that copy
--   device_sync_us [us]: in calls that wait for the device
-- Order: none
WITH calls AS (
    SELECT trace, t_ns, process, thread, stack, direction, bytes, duration_ns FROM device_copies
    UNION ALL
    SELECT trace, t_ns, process, thread, stack, 'sync' AS direction, 0 AS bytes, duration_ns FROM device_syncs
)
SELECT stack, least(greatest((t_ns - $origin_ns) // $bin_ns, 0), $bins - 1) AS bin,
    coalesce(sum(bytes) FILTER (direction = 'h2d'), 0)::BIGINT AS h2d_bytes,
    coalesce(sum(bytes) FILTER (direction = 'd2h'), 0)::BIGINT AS d2h_bytes,
    coalesce(sum(bytes) FILTER (direction = 'd2d'), 0)::BIGINT AS d2d_bytes,
    coalesce(sum(bytes) FILTER (direction = 'h2h'), 0)::BIGINT AS h2h_bytes,
    coalesce(sum(bytes) FILTER (direction = 'unified'), 0)::BIGINT AS unified_bytes,
    coalesce(sum(duration_ns) FILTER (direction <> 'sync'), 0) / 1e3 AS device_copy_us,
    coalesce(sum(duration_ns) FILTER (direction = 'sync'), 0) / 1e3 AS device_sync_us
FROM calls, selection
WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, stack)
GROUP BY stack, bin
