-- Answers: which files of the user's code have the selected traces?
-- Reads: fleet_figures, selected_traces
-- Columns:
--   file: as in fleet_figures
-- Order: file
SELECT DISTINCT f.file FROM fleet_figures f JOIN selected_traces s ON f.trace = s.trace
WHERE f.scope = 'line' AND f.file IS NOT NULL ORDER BY f.file
