-- Answers: which labels have the traces of the fleet?
-- Reads: fleet_traces
-- Columns:
--   label: name and value, as NAME=VALUE
--   traces: number of traces that have it
-- Order: number of traces, descending, then label
WITH names AS (SELECT unnest(map_keys(labels)) AS name, unnest(map_values(labels)) AS value FROM fleet_traces)
SELECT name || '=' || value AS label, count(*) AS traces FROM names GROUP BY name, value ORDER BY traces DESC, label
