-- Answers: how much does each trace hold?
-- Reads: records
-- Stored: always
-- Columns:
--   trace
--   kind: kind of record, by the name that the trace format has for it
--   records: how many
-- Order: trace, then kind
SELECT trace, kind, count(*) AS records FROM records GROUP BY trace, kind ORDER BY trace, kind
