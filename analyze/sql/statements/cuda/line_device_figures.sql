-- Answers: what does each line ask CUDA libraries for? A line has a row for each of its functions.
-- Parameters: none (`selection` and `user_files` hold what was asked for)
-- Columns:
--   file: file name; NULL, like the three that follow = calls with no frame of the user's
--   line: line number
--   function: qualified name
--   first_line: first line of that function
--   h2d_bytes [bytes]: copied from host to device
--   d2h_bytes [bytes]: copied from device to host
--   d2d_bytes [bytes]: copied from device to device
--   h2h_bytes [bytes]: copied from host to host
--   unified_bytes [bytes]: copied in a direction that the call does not say
--   device_copy_s [s]: in calls that copy
--   device_sync_s [s]: in calls that wait for the device
--   device_alloc_bytes [bytes]: allocated on devices
--   device_live_at_peak_bytes [bytes]: the part of it that was alive when all processes together had most of it
-- Order: file, line, first line, function
SELECT file, line, function, first_line, sum(h2d_bytes)::BIGINT AS h2d_bytes, sum(d2h_bytes)::BIGINT AS d2h_bytes,
    sum(d2d_bytes)::BIGINT AS d2d_bytes, sum(h2h_bytes)::BIGINT AS h2h_bytes,
    sum(unified_bytes)::BIGINT AS unified_bytes, sum(device_copy_s) AS device_copy_s,
    sum(device_sync_s) AS device_sync_s, sum(device_alloc_bytes)::BIGINT AS device_alloc_bytes,
    sum(device_live_at_peak_bytes)::BIGINT AS device_live_at_peak_bytes
FROM device_figures LEFT JOIN stack_owners USING (trace, stack)
GROUP BY file, line, function, first_line
ORDER BY file, line, first_line, function
