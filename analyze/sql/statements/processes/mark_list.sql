-- Answers: what was said while recording: marks, pauses, changed settings?
-- Reads: marks, selection
-- Columns:
--   trace
--   what: mark (also where it is not told), pause or set
--   text: the mark's text; of set: what was set (cpu-interval=1ms); empty for a pause
--   t_s
--   end_s [s]: end of the marked block, or of the pause; NULL = a moment, or the end was not reached while recorded
--   pid: of the program's process that set the mark; NULL = from outside
-- Order: time, then end
SELECT trace, coalesce(what, 'mark') AS what, coalesce(text, '') AS text, t_ns / 1e9 AS t_s, end_ns / 1e9 AS end_s, pid
FROM marks, selection
WHERE overlaps_window(selection, t_ns, greatest(t_ns, end_ns))
ORDER BY t_ns, end_ns
