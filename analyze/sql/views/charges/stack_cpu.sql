-- Answers: how much CPU time of the selection is each stack charged with?
-- Parameters: none (the table `selection` holds time window, processes and threads)
-- Columns:
--   trace: which trace, from 1
--   stack: stack id; NULL = ticks without a Python stack
--   cpu_s [s]: CPU time
-- Order: none
WITH parts AS (
    SELECT * FROM own_cpu
    UNION ALL BY NAME
    SELECT trace, stack, user_s + system_s AS cpu_s FROM helper_ticks, selection
    WHERE (from_ns IS NULL OR t_ns >= from_ns) AND (to_ns IS NULL OR t_ns < to_ns)
        AND (process_ids IS NULL OR list_contains(process_ids, process))
        AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
)
SELECT trace, stack, sum(cpu_s) AS cpu_s FROM parts GROUP BY trace, stack
