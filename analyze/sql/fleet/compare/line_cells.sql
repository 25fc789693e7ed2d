-- Answers: what did the lines cost on each host of each side?
-- Reads: compared_cells, compared_lines, compared_sums
-- Columns:
--   number: of the line, by compared_lines
--   cell: number of the cell
--   value: sum over the lines with this number
--   variance: sum of theirs
-- Order: none
WITH parts AS (
    SELECT DISTINCT part, cell, version FROM compared_cells
)
SELECT l.number, p.cell, sum(s.value) AS value, sum(s.variance) AS variance
FROM compared_sums s
JOIN parts p ON s.part = p.part
JOIN compared_lines l ON s.code = l.code AND p.version IS NOT DISTINCT FROM l.version
GROUP BY l.number, p.cell
