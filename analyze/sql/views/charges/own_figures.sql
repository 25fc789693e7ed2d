-- Answers: what do the CPU ticks of the selection that are charged to their own stack add up to, by line?
-- The part of tick_figures that own_ticks has. Times are added up as recorded and by thread first, and scaled then, so
-- that Python's time, total minus the rest, is exactly 0 where all of the time is native or unclassified.
-- Reads: library_threads, native_ticks, stack_owners, stack_ticks, thread_scale
-- Stored: part
-- Columns:
--   trace, location, ticks, python_s, native_s, parallel_native_s, unclassified_s, system_s, gc_s, cpu_variance
-- Order: none
WITH whole AS (
    SELECT trace, thread, location, sum(ticks) AS ticks, sum(user_ns) AS user_ns, sum(system_ns) AS system_ns,
        sum(gc_ns) AS gc_ns, sum(squares_ns2) AS squares_ns2
    FROM stack_ticks LEFT JOIN (SELECT trace, stack, location FROM stack_owners) USING (trace, stack)
    WHERE is_selected GROUP BY ALL
), native AS (
    SELECT trace, thread, location, sum(if(is_native, user_ns, 0)) AS native_ns,
        sum(if(is_native, 0, user_ns)) AS unclassified_ns
    FROM native_ticks GROUP BY ALL
), scaled AS (
    SELECT w.trace, w.location, w.ticks, coalesce(scale, 1) AS factor, exact_s(user_ns, factor) AS user_s,
        exact_s(coalesce(native_ns, 0), factor) AS native_s,
        exact_s(coalesce(native_ns + unclassified_ns, 0), factor) AS rest_s, exact_s(system_ns, factor) AS system_s,
        exact_s(gc_ns, factor) AS gc_s, rounded_s2(squares_ns2 / 1e18 * factor ** 2) AS cpu_variance
    FROM whole w LEFT JOIN native n ON n.trace = w.trace AND n.thread IS NOT DISTINCT FROM w.thread
        AND n.location IS NOT DISTINCT FROM w.location
    LEFT JOIN thread_scale s ON s.trace = w.trace AND s.thread = w.thread
    ANTI JOIN library_threads l ON l.trace = w.trace AND l.thread = w.thread
)
SELECT trace, location, sum(ticks)::BIGINT AS ticks, sum(user_s - rest_s) AS python_s,
    sum(native_s) AS native_s, 0.0::DOUBLE AS parallel_native_s, sum(rest_s - native_s) AS unclassified_s,
    sum(system_s) AS system_s, sum(gc_s) AS gc_s, sum(cpu_variance) AS cpu_variance
FROM scaled GROUP BY trace, location
