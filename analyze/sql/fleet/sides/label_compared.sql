-- Answers: which traces are compared by the values of a label, and by what are their figures divided?
-- Notes: Traces without the label or of unknown hosts, and those without exposure, are left out.
-- Parameters:
--   label: name of the label
-- Reads: fleet_traces, selected_traces
-- Columns:
--   trace: as in selected_traces
--   host: as in selected_traces
--   version: as in selected_traces
--   side: number of the value, from 0, in the order in which they were first recorded
--   name: the value
--   exposure: as in selected_traces
-- Order: none
WITH named AS (
    SELECT s.trace, s.host, s.version, s.exposure, t.start_ns, t.labels[$label] AS name
    FROM selected_traces s JOIN fleet_traces t ON s.trace = t.trace
    WHERE s.host IS NOT NULL AND s.exposure > 0 AND t.labels[$label] IS NOT NULL
), started AS (
    SELECT name, min(start_ns) AS start_ns FROM named GROUP BY name
), numbered AS (
    SELECT name, row_number() OVER (ORDER BY start_ns NULLS LAST, name) - 1 AS side FROM started
)
SELECT n.trace, n.host, n.version, o.side, n.name, n.exposure FROM named n JOIN numbered o ON n.name = o.name
