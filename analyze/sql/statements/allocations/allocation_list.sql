-- Answers: which allocation samples does the selection hold, one by one, and when was each block freed?
-- Reads: allocations, selection
-- Columns:
--   t_ns, end_t_ns, process, thread, stack, free_stack, alloc_bytes
-- Order: time, then thread, stack
SELECT t_ns, end_t_ns, process, thread, stack, free_stack, alloc_bytes
FROM allocations, selection
WHERE alloc_bytes > 0 AND is_selected(selection, t_ns, process, thread) AND has_labels(trace, stack)
ORDER BY t_ns, thread, stack, end_t_ns
