-- Answers: what was not recorded, or not as well as it could be?
-- Parameters: none
-- Columns:
--   name: stable name
--   severity: error (a whole kind is missing), loss (samples are missing), info (nothing is missing, but know it)
--   count: how often
--   text: one sentence
-- Order: most severe first, then name
SELECT name, severity, sum("count")::BIGINT AS count, first(text) AS text
FROM losses GROUP BY name, severity
ORDER BY CASE severity WHEN 'error' THEN 0 WHEN 'loss' THEN 1 ELSE 2 END, name
