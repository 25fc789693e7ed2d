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
    SELECT s.trace, s.native, c.library, c.image, c.symbol
    FROM native_frames s JOIN native_frames c ON c.trace = s.trace AND c.native = s.callee AND NOT s.is_whole
), by_thread AS (
    SELECT trace, thread, location, library, image, symbol, count(*) AS ticks,
        sum((user_ns + system_ns)::DOUBLE) AS cpu_ns
    FROM cpu_rows c JOIN called USING (trace, native) LEFT JOIN started_stacks USING (trace, thread, stack)
    LEFT JOIN (SELECT trace, stack, location FROM stack_owners) o
        ON o.trace = c.trace AND o.stack = coalesce(started_on, c.stack), selection
    WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, c.stack)
    GROUP BY ALL
)
SELECT trace, location, library, image, symbol, sum(ticks)::BIGINT AS ticks,
    sum(exact_s(cpu_ns * coalesce(scale, 1))) AS cpu_s
FROM by_thread LEFT JOIN (SELECT trace, thread, scale FROM thread_scale) USING (trace, thread)
ANTI JOIN library_threads USING (trace, thread)
GROUP BY trace, location, library, image, symbol
