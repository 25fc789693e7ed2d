-- Answers: how much CPU time did each process use, piece by piece of the recording?
-- Parameters:
--   piece_ns [ns]: length of a piece
-- Reads: charged_ticks, selection
-- Columns:
--   process, t_ns, python_s, native_s, unclassified_s, system_s
-- Order: process, then time; pieces without CPU time are absent
SELECT process, t_ns // $piece_ns * $piece_ns AS t_ns,
    coalesce(sum(user_s) FILTER (class = 'python'), 0) AS python_s,
    coalesce(sum(user_s) FILTER (class IN ('builtin', 'extension')), 0) AS native_s,
    coalesce(sum(user_s) FILTER (class = 'unclassified'), 0) AS unclassified_s, coalesce(sum(system_s), 0) AS system_s
FROM charged_ticks, selection
WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, own_stack)
GROUP BY 1, 2 ORDER BY 1, 2
