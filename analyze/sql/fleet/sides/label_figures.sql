-- Answers: which labels have the selected traces, and how many values has each?
-- Reads: fleet_traces, selected_traces
-- Columns:
--   label: name of the label
--   different: number of its values
--   hosts: number of hosts with selected traces
-- Order: label
WITH keys AS (
    SELECT unnest(map_keys(t.labels)) AS label, t.labels FROM fleet_traces t JOIN selected_traces s ON t.trace = s.trace
), names AS (
    SELECT label, labels[label] AS value FROM keys
)
SELECT label, count(DISTINCT value) AS different, (SELECT count(DISTINCT host) FROM selected_traces) AS hosts
FROM names GROUP BY label ORDER BY label
