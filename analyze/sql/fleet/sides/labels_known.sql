-- Answers: which labels have the traces of the fleet?
-- Reads: fleet_traces
-- Columns:
--   label: name and value, as NAME=VALUE
--   traces: number of traces that have it
-- Order: number of traces, descending, then label
WITH keys AS (SELECT unnest(map_keys(labels)) AS name, labels FROM fleet_traces),
names AS (SELECT name, labels[name] AS value FROM keys)
SELECT name || '=' || value AS label, count(*) AS traces FROM names GROUP BY name, value ORDER BY traces DESC, label
