-- Answers: what do the CPU ticks of libraries' threads add up to, by the line that they are charged to?
-- The part of tick_figures that helper_ticks has.
-- Reads: helper_ticks, selection, stack_owners
-- Stored: part
-- Columns:
--   trace, location, ticks, python_s, native_s, parallel_native_s, unclassified_s, system_s, gc_s, cpu_variance
-- Order: none
SELECT trace, location, sum(ticks)::BIGINT AS ticks, sum(if(class = 'python', user_s, 0)) AS python_s,
    sum(if(class IN ('builtin', 'extension'), user_s, 0)) AS native_s,
    sum(if(is_parallel, user_s, 0)) AS parallel_native_s,
    sum(if(class = 'unclassified', user_s, 0)) AS unclassified_s, sum(system_s) AS system_s,
    sum(if(gc, user_s + system_s, 0)) AS gc_s,
    sum(rounded_s2((user_s + system_s) ** 2)) AS cpu_variance
FROM helper_ticks LEFT JOIN (SELECT trace, stack, location FROM stack_owners) USING (trace, stack), selection
WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, own_stack)
GROUP BY trace, location
