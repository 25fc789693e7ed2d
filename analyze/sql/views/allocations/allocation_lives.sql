-- Answers: which line is each allocation of the selection charged to, and how did it end?
-- Reads: allocations, import_stacks, process_moments, selection, stack_owners
-- Stored: no
-- Columns:
--   trace, process, t_ns, end_t_ns, file, line, function, first_line, type, allocator, family
--   weight: how many blocks like it were allocated; NULL = not sampled
--   alloc_count: allocations that the row stands for; NULL = not sampled
--   alloc_bytes [bytes]: size of these allocations; NULL = not sampled
--   alloc_variance: as in allocations; NULL = not sampled
--   live_count: as alloc_count, for sums over how long they lived; NULL = not followed, or not sampled
--   live_bytes [bytes]: as alloc_bytes, likewise
--   live_variance: as alloc_variance, likewise
--   interval_bytes [bytes]: as in allocations
--   live_interval_bytes [bytes]: as in allocations
--   survived, is_import
--   is_same_line: freed by the line that allocated it
--   is_at_peak: alive when the footprint of the process tree was highest
-- Order: none
SELECT a.trace, process, a.t_ns, end_t_ns, o.file, o.line, o.function, o.first_line, a.type, allocator, family,
    weight, alloc_count, alloc_bytes, alloc_variance, live_count, live_bytes, live_variance, interval_bytes,
    live_interval_bytes, survived,
    i.stack IS NOT NULL AS is_import,
    end_t_ns IS NOT NULL AND coalesce(o.file = f.file AND o.line = f.line, false) AS is_same_line,
    coalesce(a.t_ns <= peak_ns AND coalesce(end_t_ns > peak_ns, true), false) AS is_at_peak
FROM allocations a LEFT JOIN process_moments USING (trace, process)
LEFT JOIN stack_owners o ON o.trace = a.trace AND o.stack = a.stack
LEFT JOIN stack_owners f ON f.trace = a.trace AND f.stack = a.free_stack
LEFT JOIN import_stacks i ON i.trace = a.trace AND i.stack = a.stack, selection
WHERE is_selected(selection, a.t_ns, process, thread) AND has_labels(a.trace, a.stack)
