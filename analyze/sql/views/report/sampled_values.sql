-- Answers: which samples of which metric does the selection hold, when and for which stack?
-- Exports are made of these rows. The sum over a metric is the total in the report. A wait counts from its start.
-- Ticks have the stack that was running, which may have no line of the user's (own_stack).
-- Reads: allocations, charged_ticks, copies, libraries, native_frames, process_moments, selected_waits, selection,
--     symbols
-- Stored: no
-- Columns:
--   trace, t_ns, process, thread, stack
--   metric: cpu, wait, allocated, live-at-peak or copies
--   part, library, symbol, called_native, value
-- Order: none
WITH ticks AS (
    SELECT charged_ticks.* EXCLUDE (native, stack), own_stack AS stack,
        if(f.callee IS NULL OR is_whole AND NOT is_parallel AND own_stack IS NOT NULL, NULL, native) AS called_native
    FROM charged_ticks LEFT JOIN (SELECT trace, native, callee, is_whole FROM native_frames) f USING (trace, native),
        selection
    WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, own_stack)
), blocks AS (
    SELECT a.trace, a.t_ns, process, thread, stack, alloc_bytes,
        if(f.callee IS NULL OR is_whole AND stack IS NOT NULL, NULL, native) AS called_native,
        if(a.t_ns <= peak_ns AND coalesce(end_t_ns > peak_ns, true), live_bytes, NULL) AS live_bytes
    FROM allocations a LEFT JOIN (SELECT trace, native, callee, is_whole FROM native_frames) f USING (trace, native)
    LEFT JOIN process_moments USING (trace, process), selection
    WHERE is_selected(selection, a.t_ns, process, thread) AND has_labels(a.trace, stack)
)
SELECT trace, t_ns, process, thread, stack, 'cpu' AS metric, 'python' AS part, NULL AS library, NULL AS symbol,
    called_native, user_s AS value
FROM ticks WHERE class = 'python' AND user_s > 0
UNION ALL BY NAME
SELECT t.trace, t_ns, process, thread, stack, 'cpu' AS metric, 'native' AS part, library,
    if(address < end_offset, coalesce(demangled, name), NULL) AS symbol, called_native, user_s AS value
FROM ticks t
ASOF LEFT JOIN symbols s ON t.trace = s.trace AND t.module = s.module AND t.address >= s.start_offset
LEFT JOIN libraries l ON l.trace = t.trace AND l.module = t.module
WHERE t.class IN ('builtin', 'extension') AND user_s > 0
UNION ALL BY NAME
SELECT trace, t_ns, process, thread, stack, 'cpu' AS metric, 'unclassified' AS part, called_native, user_s AS value
FROM ticks WHERE class = 'unclassified' AND user_s > 0
UNION ALL BY NAME
SELECT trace, t_ns, process, thread, stack, 'cpu' AS metric, 'system' AS part, called_native, system_s AS value
FROM ticks WHERE system_s > 0
UNION ALL BY NAME
SELECT trace, t_ns, process, thread, stack, 'wait' AS metric, class AS part, wait_s AS value FROM selected_waits
WHERE wait_s IS NOT NULL
UNION ALL BY NAME
SELECT trace, t_ns, process, thread, stack, 'allocated' AS metric, called_native, alloc_bytes AS value FROM blocks
WHERE alloc_bytes > 0
UNION ALL BY NAME
SELECT trace, t_ns, process, thread, stack, 'live-at-peak' AS metric, called_native, live_bytes AS value FROM blocks
WHERE live_bytes > 0
UNION ALL BY NAME
SELECT trace, t_ns, process, thread, stack, 'copies' AS metric, bytes AS value FROM copies, selection
WHERE bytes IS NOT NULL AND is_selected(selection, t_ns, process, thread) AND has_labels(trace, stack)
