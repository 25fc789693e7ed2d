-- Answers: how much CPU time did each stack, and each thread, use in each piece of the time?
-- Threads are those that used the CPU; stacks are those that the ticks are charged to, each with the native function
-- that was running. Time before or after the pieces counts in the first or the last.
-- Parameters:
--   origin_ns: start of the first piece
--   bin_ns: length of a piece
--   bins: number of pieces
-- Reads: charged_ticks, native_frames, selection
-- Columns:
--   stack, called_native, thread, is_thread, bin
--   python_us [us]: user CPU time in Python code
--   native_us [us]: user CPU time in builtins and extensions
--   unclassified_us [us]: user CPU time of which it is unknown whether it is Python's or native
--   system_us [us]: kernel CPU time
--   gc_us [us]: the part of these four that garbage collections took
-- Order: none
WITH placed AS (
    SELECT stack, thread, user_s, system_s, class, gc,
        if(callee IS NULL OR is_whole AND NOT is_parallel AND stack IS NOT NULL, NULL, native) AS called_native,
        least(greatest((t_ns - $origin_ns) // $bin_ns, 0), $bins - 1) AS bin
    FROM charged_ticks LEFT JOIN (SELECT trace, native, callee, is_whole FROM native_frames) USING (trace, native),
        selection
    WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, own_stack)
)
SELECT stack, called_native, thread, grouping(stack) = 1 AS is_thread, bin,
    coalesce(sum(user_s) FILTER (class = 'python'), 0) * 1e6 AS python_us,
    coalesce(sum(user_s) FILTER (class IN ('builtin', 'extension')), 0) * 1e6 AS native_us,
    coalesce(sum(user_s) FILTER (class = 'unclassified'), 0) * 1e6 AS unclassified_us,
    sum(system_s) * 1e6 AS system_us,
    coalesce(sum(user_s + system_s) FILTER (gc), 0) * 1e6 AS gc_us
FROM placed GROUP BY GROUPING SETS ((stack, called_native, bin), (thread, bin))
