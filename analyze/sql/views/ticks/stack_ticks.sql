-- Answers: what do the CPU ticks of each thread add up to, by the stack that they are charged to, as recorded?
-- Exact up to 2 ** 53 ns, 104 days.
-- Reads: cpu_rows, selection, started_stacks
-- Stored: yes
-- Columns:
--   trace, process, thread, stack
--   is_selected: these ticks are in the selection
--   ticks
--   weighed: number of those that carry time
--   user_ns
--   system_ns [ns]: sum of the kernel CPU times of the ticks, as recorded
--   gc_ns [ns]: the part of user_ns and system_ns that garbage collections took
--   has_python: the thread may have had a Python thread state at one of these ticks
--   squares_ns2 [ns²]: sum of the squares of the CPU times of the ticks, as recorded, in whole
--     numbers of 2 ** 18 ns² (0.5 µs squared), so that they add up to the same in any order up to 2,361 s²
-- Order: none
SELECT trace, process, thread, coalesce(started_on, stack) AS stack,
    is_selected(selection, t_ns, process, thread) AND has_labels(trace, stack) AS is_selected,
    count(*) AS ticks, count(nullif(cpu_ns, 0)) AS weighed,
    coalesce(sum(user_ns::DOUBLE), 0) AS user_ns, coalesce(sum(system_ns::DOUBLE), 0) AS system_ns,
    coalesce(sum(if(gc, cpu_ns, 0)), 0) AS gc_ns, bool_or(has_python IS DISTINCT FROM false) AS has_python,
    262144 * coalesce(sum(round(cpu_ns * cpu_ns / 262144)), 0) AS squares_ns2
FROM (SELECT *, (user_ns + system_ns)::DOUBLE AS cpu_ns FROM cpu_rows)
LEFT JOIN started_stacks USING (trace, thread, stack), selection
GROUP BY ALL
