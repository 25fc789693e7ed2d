-- Answers: which lines of the user's code does each stack hold?
-- Frames of other code (user_files says which) are left out. A line of 0 (an instruction without a line) is shown as
-- the first line of its function.
-- Reads: user_frames, user_locations
-- Stored: no
-- Columns:
--   trace, stack
--   depth: 1 = innermost frame of the whole stack
--   file, function, first_line, line
-- Order: none
SELECT f.trace, stack, depth, file, function, first_line, line
FROM user_frames f JOIN user_locations l ON l.trace = f.trace AND l.id = f.location
