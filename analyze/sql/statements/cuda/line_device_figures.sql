-- Answers: what do the CUDA calls of each line add up to? A line has a row for each of its functions.
-- Reads: device_figures, stack_owners
-- Columns:
--   file, line, function, first_line, h2d_bytes, d2h_bytes, d2d_bytes, h2h_bytes, unified_bytes, device_copy_s
--   device_sync_s, device_alloc_bytes, device_live_at_peak_bytes
-- Order: file, line, first line, function
SELECT file, line, function, first_line, sum(h2d_bytes)::BIGINT AS h2d_bytes, sum(d2h_bytes)::BIGINT AS d2h_bytes,
    sum(d2d_bytes)::BIGINT AS d2d_bytes, sum(h2h_bytes)::BIGINT AS h2h_bytes,
    sum(unified_bytes)::BIGINT AS unified_bytes, sum(device_copy_s) AS device_copy_s,
    sum(device_sync_s) AS device_sync_s, sum(device_alloc_bytes)::BIGINT AS device_alloc_bytes,
    sum(device_live_at_peak_bytes)::BIGINT AS device_live_at_peak_bytes
FROM device_figures LEFT JOIN stack_owners USING (trace, stack)
GROUP BY file, line, function, first_line
ORDER BY file, line, first_line, function
