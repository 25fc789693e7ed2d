-- Answers: how much CPU time of the selection is charged to each stack?
-- Reads: helper_ticks, own_cpu, selection
-- Stored: no
-- If library_threads is empty: own_cpu
-- Columns:
--   trace, stack
--   cpu_s [s]: user and kernel CPU time
--   cpu_variance
-- Order: none
WITH parts AS (
    SELECT * FROM own_cpu
    UNION ALL BY NAME
    SELECT trace, stack, user_s + system_s AS cpu_s,
        rounded_s2((user_s + system_s) ** 2) AS cpu_variance
    FROM helper_ticks, selection
    WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, own_stack)
)
SELECT trace, stack, sum(cpu_s) AS cpu_s, sum(cpu_variance) AS cpu_variance FROM parts GROUP BY trace, stack
