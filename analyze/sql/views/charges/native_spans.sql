-- Answers: when was each Python thread inside native code, and with which stack, by its ticks?
-- Only of processes that have threads of libraries (library_threads). A tick in native code stands for the time that is
-- closer to it than to the thread's other ticks, at most two CPU intervals away. Two successive ticks in native code
-- with the same stack, at most 100 intervals apart, stand for all of the time between them: a thread that waits for its
-- helpers has no ticks.
-- Reads: cpu_ticks, library_threads, settings
-- Stored: no
-- Columns:
--   trace, process, thread, stack, from_ns, to_ns
--   bucket_ns [ns]: length of the pieces of time in which ticks are compared with spans, the same for all of a trace; a
--     span is in at most 21 of them
-- Order: none
WITH intervals AS (
    SELECT trace, any_value(try_cast(value AS BIGINT)) AS interval_ns
    FROM settings WHERE name = 'cpu_interval_ns' GROUP BY trace
), seen AS (
    SELECT trace, process, thread, stack, t_ns, class IN ('builtin', 'extension') AND stack IS NOT NULL AS is_native,
        least(greatest(coalesce(interval_ns, 10000000), 1), 1000000000) AS interval_ns
    FROM cpu_ticks SEMI JOIN library_threads USING (trace, process) LEFT JOIN intervals USING (trace)
    WHERE has_python AND t_ns BETWEEN 0 AND 4000000000000000000
), neighbours AS (
    SELECT *, lag(t_ns) OVER life AS before_ns, lead(t_ns) OVER life AS after_ns,
        coalesce(lag(is_native) OVER life AND lag(stack) OVER life = stack
            AND t_ns - before_ns <= 100 * interval_ns, false) AS is_joined_before,
        coalesce(lead(is_native) OVER life AND lead(stack) OVER life = stack
            AND after_ns - t_ns <= 100 * interval_ns, false) AS is_joined_after
    FROM seen
    WINDOW life AS (PARTITION BY trace, process, thread ORDER BY t_ns, stack NULLS LAST, is_native)
), halves AS (
    SELECT *, coalesce(t_ns - (before_ns + (t_ns - before_ns) // 2), 2 * interval_ns) AS half_before_ns,
        coalesce((after_ns - t_ns) // 2, 2 * interval_ns) AS half_after_ns
    FROM neighbours WHERE is_native
)
SELECT trace, process, thread, stack,
    greatest(t_ns - if(is_joined_before, half_before_ns, least(half_before_ns, 2 * interval_ns)), 0) AS from_ns,
    t_ns + if(is_joined_after, half_after_ns, least(half_after_ns, 2 * interval_ns)) AS to_ns,
    greatest(50000000, 5 * interval_ns) AS bucket_ns
FROM halves
