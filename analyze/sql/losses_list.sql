-- Answers: what was not recorded, or not as well as it could be?
-- Parameters: none
-- Columns:
--   trace: which trace, from 1
--   name: stable name
--   severity: error (a whole kind is missing), loss (samples are missing), info (nothing is missing, but know it)
--   count: how often
--   text: one sentence
-- Order: trace, most severe first, then name
SELECT trace, name, severity, sum("count")::BIGINT AS count, first(text) AS text
FROM losses GROUP BY trace, name, severity
ORDER BY trace, CASE severity WHEN 'error' THEN 0 WHEN 'loss' THEN 1 ELSE 2 END, name
