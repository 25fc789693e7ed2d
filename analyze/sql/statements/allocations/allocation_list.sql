-- Answers: which allocation samples does the selection hold, one by one, and when did each block go?
-- Parameters: none (the table `selection` holds time window, processes and threads)
-- Columns:
--   t_ns [ns]: when it was allocated, from the start of the recording
--   end_t_ns [ns]: when it was freed; NULL = alive at the end of its process, or not followed
--   process: process id
--   thread: thread id
--   stack: id of the stack that allocated it; NULL = no Python stack was there or could be read
--   free_stack: id of the stack that freed it; NULL = not freed, or no Python stack
--   alloc_bytes [bytes]: allocated, estimated
-- Order: time, then thread, stack
SELECT t_ns, end_t_ns, process, thread, stack, free_stack, alloc_bytes
FROM allocations, selection
WHERE alloc_bytes > 0 AND coalesce(t_ns >= from_ns, true) AND coalesce(t_ns < to_ns, true)
    AND (process_ids IS NULL OR list_contains(process_ids, process))
    AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
ORDER BY t_ns, thread, stack, end_t_ns
