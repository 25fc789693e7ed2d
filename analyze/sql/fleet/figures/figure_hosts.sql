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
WITH distinct_parts AS (
    SELECT DISTINCT file, line, text, named, function, line - first_line AS distance
    FROM figure_parts WHERE metric = $by AND file IS NOT NULL
), parts AS (
    SELECT *, dense_rank() OVER (ORDER BY file, function, text, distance) AS part FROM distinct_parts
), pairs AS (
    SELECT DISTINCT p.part, f.trace
    FROM fleet_figures f JOIN parts p ON f.file = p.file AND f.line IS NOT DISTINCT FROM p.line
        AND f.text IS NOT DISTINCT FROM p.text AND f.function IS NOT DISTINCT FROM p.named
    WHERE f.scope = $scope AND f.metric = $by
), counts AS (
    SELECT p.part, count(*) AS traces, count(DISTINCT s.host) AS hosts
    FROM pairs p JOIN selected_traces s ON p.trace = s.trace GROUP BY p.part
)
SELECT DISTINCT p.file, p.function, p.text, p.distance, c.traces, c.hosts
FROM parts p JOIN counts c ON p.part = c.part
