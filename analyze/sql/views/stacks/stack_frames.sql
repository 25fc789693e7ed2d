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
SELECT f.trace, stack, depth, file, function, first_line, line
FROM user_frames f JOIN user_locations l ON l.trace = f.trace AND l.id = f.location
