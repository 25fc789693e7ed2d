-- Answers: what do the CPU ticks of each thread add up to, by stack, as recorded? (Exact up to 2 ** 53 ns, 104 days.)
-- Parameters: none (the table `selection` holds time window, processes and threads)
-- Columns:
--   trace: which trace, from 1
--   process: process id
--   thread: thread id
--   stack: stack id; NULL = no Python stack was there or could be read
--   is_selected: these ticks are in the selection
--   ticks: how many
--   weighed: those of them that carry time
--   user_ns [ns]: sum of their user CPU times
--   system_ns [ns]: sum of their kernel CPU times
--   gc_ns [ns]: the part of the two that garbage collections took
--   has_python: at one of them at least, the thread may have had a Python thread state
-- Order: none
SELECT trace, process, thread, stack,
    (from_ns IS NULL OR t_ns >= from_ns) AND (to_ns IS NULL OR t_ns < to_ns)
        AND (process_ids IS NULL OR list_contains(process_ids, process))
        AND (thread_ids IS NULL OR list_contains(thread_ids, thread)) AS is_selected,
    count(*) AS ticks, count(*) FILTER (user_ns + system_ns > 0) AS weighed,
    coalesce(sum(user_ns::DOUBLE), 0) AS user_ns, coalesce(sum(system_ns::DOUBLE), 0) AS system_ns,
    coalesce(sum((user_ns + system_ns)::DOUBLE) FILTER (gc), 0) AS gc_ns,
    bool_or(has_python IS DISTINCT FROM false) AS has_python
FROM cpu_rows, selection
GROUP BY ALL
