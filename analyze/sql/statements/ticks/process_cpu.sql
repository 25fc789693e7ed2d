-- Answers: how much CPU time did each process use, piece by piece of the recording?
-- Parameters:
--   piece_ns [ns]: length of a piece
-- Columns:
--   process: process id
--   t_ns [ns]: when the piece begins, from the start of the recording
--   python_s [s]: user CPU time in Python code
--   native_s [s]: user CPU time in builtins and extensions
--   system_s [s]: kernel CPU time
-- Order: process, then time; pieces without CPU time are absent
SELECT process, t_ns // $piece_ns * $piece_ns AS t_ns,
    coalesce(sum(user_s) FILTER (class = 'python'), 0) AS python_s,
    coalesce(sum(user_s) FILTER (class <> 'python'), 0) AS native_s, coalesce(sum(system_s), 0) AS system_s
FROM charged_ticks, selection
WHERE coalesce(t_ns >= from_ns, true) AND coalesce(t_ns < to_ns, true)
    AND (process_ids IS NULL OR list_contains(process_ids, process))
    AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
GROUP BY 1, 2 ORDER BY 1, 2
