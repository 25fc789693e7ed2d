-- Answers: which lines of the user's code does each stack hold?
-- Frames of other code (user_files says which) are left out. A line of 0 (an instruction without a line) is shown as
-- the first line of its function.
-- Parameters: none
-- Columns:
--   trace: which trace, from 1
--   stack: stack id
--   depth: 1 = innermost frame of the whole stack
--   file: file name of the code object
--   function: qualified name
--   first_line: first line of the function
--   line: line that was executing
-- Order: none
WITH frames AS (
    SELECT trace, stack, unnest(locations) AS id, generate_subscripts(locations, 1) AS depth FROM stacks
), user_locations AS (
    SELECT trace, id, file, function, first_line, if(line > 0, line, first_line) AS line
    FROM locations SEMI JOIN user_files USING (file)
)
SELECT trace, stack, depth, file, function, first_line, line
FROM frames JOIN user_locations USING (trace, id)
