-- Answers: what was not recorded, or less well than it could be?
-- Reads: losses
-- Columns:
--   trace
--   name: stable name; ? = unknown
--   severity: error (a whole kind is missing), loss (samples are missing; also if unknown), info (nothing is missing)
--   count: how often
--   text: one sentence; empty = unknown
-- Order: trace, most severe first, then name
WITH told AS (
    SELECT trace, coalesce(name, '?') AS name, coalesce(severity, 'loss') AS severity, "count", text FROM losses
)
SELECT trace, name, severity, coalesce(sum("count"), 0)::BIGINT AS count, coalesce(any_value(text), '') AS text
FROM told GROUP BY trace, name, severity
ORDER BY trace, CASE severity WHEN 'error' THEN 0 WHEN 'loss' THEN 1 ELSE 2 END, name
