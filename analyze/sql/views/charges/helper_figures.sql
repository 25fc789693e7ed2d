-- Answers: what do the CPU ticks of libraries' threads add up to (as tick_figures)?
-- Parameters: none (`selection` and `user_files` hold what was asked for)
-- Columns:
--   trace: which trace, from 1
--   location: location id of the line, as in stack_owners; NULL = samples without any frame of the user's
--   ticks: CPU ticks
--   python_s [s]: user CPU time in Python code
--   native_s [s]: user CPU time in builtins and extensions
--   parallel_native_s [s]: the part of native_s that threads of libraries spent for it
--   system_s [s]: kernel CPU time
--   gc_s [s]: the part of the three that garbage collections took
-- Order: none
SELECT trace, location, sum(ticks)::BIGINT AS ticks, sum(if(class = 'python', user_s, 0)) AS python_s,
    sum(if(class = 'python', 0, user_s)) AS native_s, sum(if(is_parallel, user_s, 0)) AS parallel_native_s,
    sum(system_s) AS system_s, sum(if(gc, user_s + system_s, 0)) AS gc_s
FROM helper_ticks LEFT JOIN (SELECT trace, stack, location FROM stack_owners) USING (trace, stack), selection
WHERE (from_ns IS NULL OR t_ns >= from_ns) AND (to_ns IS NULL OR t_ns < to_ns)
    AND (process_ids IS NULL OR list_contains(process_ids, process))
    AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
GROUP BY trace, location
