-- Answers: which lines of which functions do the frames of stacks stand for?
-- Reads: locations
-- Columns:
--   id, function, file, first_line
--   line: line that was executing; the first line of the function where the instruction has none
-- Order: id
SELECT id, function, file, first_line, if(line > 0, line, first_line) AS line FROM locations ORDER BY id
