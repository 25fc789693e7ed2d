-- Answers: which native functions did each line of Python call, and how much CPU time of the selection went to them?
-- Ticks in the bytecode loop are in none, nor are those of threads that libraries started, nor those on whose native
-- stack the loop was not found: its outermost function has called Python.
-- Reads: cpu_rows, library_threads, native_frames, selection, stack_owners, started_stacks, thread_scale
-- Stored: no
-- Columns:
--   trace, location
--   library
--   image
--   symbol
--   ticks, cpu_s
-- Order: none
WITH called AS (
    SELECT trace, native, callee FROM native_frames WHERE callee IS NOT NULL AND NOT is_whole
), by_stack AS ( -- twice as few as ticks, which saves half of the joins
    SELECT trace, thread, stack, native, count(*) AS ticks, sum((user_ns + system_ns)::DOUBLE) AS cpu_ns
    FROM cpu_rows, selection
    WHERE native IS NOT NULL AND is_selected(selection, t_ns, process, thread) AND has_labels(trace, stack)
    GROUP BY trace, thread, stack, native
), by_thread AS (
    SELECT trace, thread, location, callee, sum(ticks) AS ticks, sum(cpu_ns) AS cpu_ns
    FROM (SELECT * REPLACE (coalesce(started_on, stack) AS stack)
        FROM by_stack LEFT JOIN started_stacks USING (trace, thread, stack))
    JOIN called USING (trace, native)
    LEFT JOIN (SELECT trace, stack, location FROM stack_owners) USING (trace, stack)
    GROUP BY trace, thread, location, callee
)
SELECT trace, location, library, image, symbol, sum(ticks)::BIGINT AS ticks,
    sum(exact_s(cpu_ns * coalesce(scale, 1))) AS cpu_s
FROM by_thread JOIN (SELECT trace, native AS callee, library, image, symbol FROM native_frames) USING (trace, callee)
LEFT JOIN (SELECT trace, thread, scale FROM thread_scale) USING (trace, thread)
ANTI JOIN library_threads USING (trace, thread)
GROUP BY trace, location, library, image, symbol
