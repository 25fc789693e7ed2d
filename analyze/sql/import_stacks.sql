-- Answers: which stacks were importing a module? What they allocate stays by design: code, classes, constants.
-- Parameters: none
-- Columns:
--   trace: which trace, from 1
--   stack: stack id
-- Order: none
WITH machinery AS (
    SELECT trace, list(id) AS ids FROM locations WHERE starts_with(file, '<frozen importlib._bootstrap') GROUP BY trace
)
SELECT trace, stack FROM stacks JOIN machinery USING (trace) WHERE list_has_any(locations, ids)
