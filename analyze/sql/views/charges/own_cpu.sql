-- Answers: how much CPU time of the selection did each stack use (as stack_cpu, without the threads of libraries)?
-- Parameters: none (the table `selection` holds time window, processes and threads)
-- Columns:
--   trace: which trace, from 1
--   stack: stack id; NULL = ticks without a Python stack
--   cpu_s [s]: CPU time
-- Order: none
WITH scaled AS (
    SELECT trace, stack, round(user_ns * coalesce(scale, 1) * 68.719476736) / 68719476736
        + round(system_ns * coalesce(scale, 1) * 68.719476736) / 68719476736 AS cpu_s -- as in cpu_ticks
    FROM stack_ticks LEFT JOIN (SELECT trace, thread, scale FROM thread_scale) USING (trace, thread)
    ANTI JOIN library_threads USING (trace, thread)
    WHERE is_selected
)
SELECT trace, stack, sum(cpu_s) AS cpu_s FROM scaled GROUP BY trace, stack
