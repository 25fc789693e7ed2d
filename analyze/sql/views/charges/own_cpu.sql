-- Answers: how much CPU time of the selection did each stack use itself?
-- The part of stack_cpu without the threads of libraries.
-- Reads: library_threads, stack_ticks, thread_scale
-- Stored: part
-- Columns:
--   trace, stack
--   cpu_s [s]: as in stack_cpu
--   cpu_variance
-- Order: none
WITH scaled AS (
    SELECT trace, stack, exact_s(user_ns * coalesce(scale, 1)) + exact_s(system_ns * coalesce(scale, 1)) AS cpu_s,
        rounded_s2(squares_ns2 / 1e18 * coalesce(scale, 1) ** 2) AS cpu_variance
    FROM stack_ticks LEFT JOIN (SELECT trace, thread, scale FROM thread_scale) USING (trace, thread)
    ANTI JOIN library_threads USING (trace, thread)
    WHERE is_selected
)
SELECT trace, stack, sum(cpu_s) AS cpu_s, sum(cpu_variance) AS cpu_variance FROM scaled GROUP BY trace, stack
