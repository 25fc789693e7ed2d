-- Answers: which CPU ticks are charged to their own stack?
-- Those of all threads except threads that libraries started (library_threads).
-- Reads: cpu_ticks, library_threads
-- Stored: part
-- Columns:
--   trace, t_ns, process, thread, stack
--   ticks: 1
--   user_s, system_s, class
--   is_parallel: false
--   gc, module, address, native
-- Order: none
SELECT trace, t_ns, process, thread, stack, 1 AS ticks, user_s, system_s, class, false AS is_parallel, gc, module,
    address, native
FROM cpu_ticks ANTI JOIN library_threads USING (trace, thread)
