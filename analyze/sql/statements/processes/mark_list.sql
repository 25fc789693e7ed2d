-- Answers: which user marks, pauses and changes of settings happened while recording?
-- Reads: marks, selection
-- Columns:
--   trace
--   what: mark (also if unknown), pause or set
--   text: of mark: its text; of set: the new setting (cpu-interval=1ms); of pause: the option that caused it, empty = a
--     person or the program
--   t_s
--   end_s [s]: end of the marked block, or of the pause; NULL = a moment, or the end was not reached while recorded
--   pid: the system's id of the process that set the mark; NULL = set from outside of the program
-- Order: time, then end
SELECT trace, coalesce(what, 'mark') AS what, coalesce(text, '') AS text, t_ns / 1e9 AS t_s, end_ns / 1e9 AS end_s, pid
FROM marks, selection
WHERE is_in_window(selection, t_ns, greatest(t_ns, end_ns))
ORDER BY t_ns, end_ns
