-- Answers: which stacks of allocations were importing a module?
-- What they allocate stays by design: code, classes, constants.
-- Reads: alloc_rows, locations, stacks
-- Stored: no
-- Columns:
--   trace, stack
-- Order: none
WITH frames AS (
    SELECT trace, stack, unnest(locations) AS id
    FROM stacks SEMI JOIN (SELECT DISTINCT trace, stack FROM alloc_rows) USING (trace, stack)
)
SELECT DISTINCT trace, stack
FROM frames SEMI JOIN (
    SELECT trace, id FROM locations WHERE starts_with(file, '<frozen importlib._bootstrap')
) USING (trace, id)
