-- Answers: what was not recorded, or not as well as it could be?
-- Reads: losses
-- Columns:
--   trace
--   name: stable name; ? = not told
--   severity: error (a whole kind is missing), loss (samples are missing; also where it is not told), info (nothing is
--     missing, but know it)
--   count: how often
--   text: one sentence; empty = not told
-- Order: trace, most severe first, then name
WITH told AS (
    SELECT trace, coalesce(name, '?') AS name, coalesce(severity, 'loss') AS severity, "count", text FROM losses
)
SELECT trace, name, severity, coalesce(sum("count"), 0)::BIGINT AS count, coalesce(any_value(text), '') AS text
FROM told GROUP BY trace, name, severity
ORDER BY trace, CASE severity WHEN 'error' THEN 0 WHEN 'loss' THEN 1 ELSE 2 END, name
