-- Answers: which frames does each stack contain, the user's and all others?
-- Reads: stacks
-- Columns:
--   stack, truncated
--   locations: location ids, innermost frame first
-- Order: stack
SELECT stack, coalesce(truncated, false) AS truncated, locations FROM stacks WHERE stack IS NOT NULL ORDER BY stack
