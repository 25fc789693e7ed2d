-- Answers: which lines have the versions that are compared, and what did each of them cost on both sides?
-- Reads: compared_cells, compared_sums, compared_texts
-- Columns:
--   place: number of the line of this version, from 1
--   code: as in compared_texts
--   version: as in fleet_figures and fleet_traces
--   file: as in fleet_figures and fleet_traces
--   function: as in fleet_figures and fleet_traces
--   first_line: as in fleet_figures and fleet_traces
--   line: as in fleet_figures and fleet_traces
--   text: as in fleet_figures and fleet_traces
--   metric: name of a metric
--   before: its sums on the side 0, and on all others
--   after: its sums on the side 0, and on all others
-- Order: none
WITH parts AS (
    SELECT DISTINCT part, version, side FROM compared_cells
), sums AS (
    SELECT p.version, s.code, sum(CASE WHEN p.side = 0 THEN s.value ELSE 0 END) AS before,
        sum(CASE WHEN p.side = 0 THEN 0 ELSE s.value END) AS after
    FROM compared_sums s JOIN parts p ON s.part = p.part GROUP BY p.version, s.code
)
SELECT dense_rank() OVER (ORDER BY s.version, t.number_of_text) AS place, t.code, s.version, t.file, t.function,
    t.first_line, t.line, t.text, t.metric, s.before, s.after
FROM sums s JOIN compared_texts t ON s.code = t.code
