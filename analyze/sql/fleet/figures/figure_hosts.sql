-- Answers: in how many traces, and on how many hosts, does each line, or function, have a figure?
-- Parameters:
--   scope: line or function
--   by: name of the figure
-- Reads: figure_parts, fleet_figures, selected_traces
-- Columns:
--   file: as in figure_parts
--   function: as in figure_parts
--   text: as in figure_parts
--   distance: of the line from the first line of the function; NULL = of functions
--   traces: their number
--   hosts: their number
-- Order: none
WITH seen AS (
    SELECT file, line, text, function, f.trace, host
    FROM fleet_figures f JOIN selected_traces s ON f.trace = s.trace
    WHERE scope = $scope AND metric = $by AND file IS NOT NULL
), parts AS (
    SELECT DISTINCT file, line, text, named, function, line - first_line AS distance
    FROM figure_parts WHERE metric = $by AND file IS NOT NULL
)
SELECT p.file, p.function, p.text, p.distance, count(DISTINCT trace) AS traces, count(DISTINCT host) AS hosts
FROM parts p JOIN seen s ON p.file = s.file AND p.line IS NOT DISTINCT FROM s.line
    AND p.text IS NOT DISTINCT FROM s.text AND p.named IS NOT DISTINCT FROM s.function
GROUP BY p.file, p.function, p.text, p.distance
