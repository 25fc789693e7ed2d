-- Answers: which CPU ticks are charged to their own stack, or to the one on which their thread was started?
-- Those of all threads except threads that libraries started (library_threads).
-- Reads: cpu_ticks, library_threads, started_stacks
-- Stored: part
-- Columns:
--   trace, t_ns, process, thread, stack, own_stack
--   ticks: 1
--   user_s, system_s, class
--   is_parallel: false
--   gc, module, address, native
-- Order: none
SELECT trace, t_ns, process, thread, coalesce(started_on, stack) AS stack, stack AS own_stack, 1 AS ticks, user_s,
    system_s, class, false AS is_parallel, gc, module, address, native
FROM cpu_ticks LEFT JOIN started_stacks USING (trace, thread, stack)
ANTI JOIN library_threads USING (trace, thread)
