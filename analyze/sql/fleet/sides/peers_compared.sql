-- Answers: which traces are compared with which others, and by what are their figures divided?
-- Notes: Traces of unknown hosts, and those without exposure, are left out.
-- Parameters:
--   labels: names of the labels that peers have in common
-- Reads: fleet_traces, selected_traces
-- Columns:
--   trace: as in selected_traces
--   host: as in selected_traces
--   version: as in selected_traces
--   side: number of the group of peers, from 0
--   name: the labels of the group, as NAME=VALUE
--   exposure: as in selected_traces
-- Order: none
WITH named AS (
    SELECT s.trace, s.host, s.version, s.exposure,
        array_to_string(list_transform($labels, lambda n: n || '=' || coalesce(t.labels[n], '')), ' ') AS name
    FROM selected_traces s JOIN fleet_traces t ON s.trace = t.trace
    WHERE s.host IS NOT NULL AND s.exposure > 0
)
SELECT trace, host, version, dense_rank() OVER (ORDER BY name) - 1 AS side, name, exposure FROM named
