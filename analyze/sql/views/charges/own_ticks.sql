-- Answers: which CPU ticks are charged to their own stack?
-- Those of all threads but the ones that libraries started (library_threads).
-- Parameters: none
-- Columns:
--   trace: which trace, from 1
--   t_ns [ns]: when, from the start of the recording
--   process: process id
--   thread: thread id of the thread that used the CPU
--   stack: stack id; NULL = no Python stack was there or could be read
--   ticks: 1
--   user_s [s]: user CPU time, as in cpu_ticks
--   system_s [s]: kernel CPU time, likewise
--   class: python, builtin or extension
--   is_parallel: false
--   gc: a garbage collection was running
--   module: module id of the native code, as in cpu_ticks; NULL = no known image
--   address [bytes]: ELF virtual address in that module, as in cpu_ticks; NULL = no known image
-- Order: none
SELECT trace, t_ns, process, thread, stack, 1 AS ticks, user_s, system_s, class, false AS is_parallel, gc, module,
    address
FROM cpu_ticks ANTI JOIN library_threads USING (trace, thread)
