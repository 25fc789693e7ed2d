-- Answers: which calls of CUDA libraries copied, or waited for a device, when and in which thread?
-- Reads: device_copies, device_syncs, selection
-- Columns:
--   process, thread
--   t_ns [ns]: start of the first call, from the start of the recording
--   end_ns [ns]: end of the last call of the row
--   stack
--   what: copy or wait
--   direction: h2d, d2h, d2d, h2h, or unified (the call does not say); NULL = a wait
--   bytes [bytes]: copied; 0 = a wait, or unknown
--   calls: how many calls the row stands for
--   inside_s [s]: time inside them; 0 = unknown
-- Order: time
WITH calls AS (
    SELECT trace, process, thread, t_ns, span_ns, stack, 'copy' AS what, direction, bytes, calls, duration_ns
    FROM device_copies
    UNION ALL
    SELECT trace, process, thread, t_ns, span_ns, stack, 'wait', NULL, 0, calls, duration_ns FROM device_syncs
)
SELECT process, thread, t_ns, t_ns + coalesce(span_ns, duration_ns, 0) AS end_ns, stack, what, direction,
    coalesce(bytes, 0) AS bytes, coalesce(calls, 1) AS calls, coalesce(duration_ns, 0) / 1e9 AS inside_s
FROM calls, selection
WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, stack)
ORDER BY t_ns, process, thread, what, direction
