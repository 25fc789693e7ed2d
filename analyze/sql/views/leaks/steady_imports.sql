-- Answers: which stacks of the lines in steady_lines were importing a module?
-- What they allocate stays by design: code, classes, constants.
-- Reads: locations, stack_owners, stacks, steady_lines
-- Stored: yes
-- Columns:
--   trace, stack
-- Order: none
WITH chosen AS (
    SELECT trace, stack FROM stack_owners SEMI JOIN steady_lines USING (trace, file, line)
), frames AS (
    SELECT trace, stack, unnest(locations) AS id FROM stacks SEMI JOIN chosen USING (trace, stack)
)
SELECT DISTINCT trace, stack
FROM frames SEMI JOIN (
    SELECT trace, id FROM locations WHERE starts_with(file, '<frozen importlib._bootstrap')
) USING (trace, id)
