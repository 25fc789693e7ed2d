-- Answers: which lines of the user's code does each stack contain?
-- Frames of other code (not in user_files) are left out. An instruction without a line is shown at the first line of
-- its function.
-- Reads: user_frames, user_locations
-- Stored: no
-- Columns:
--   trace, stack
--   depth: place in the whole stack; 1 = innermost frame
--   file, function, first_line, line
-- Order: none
SELECT f.trace, stack, depth, file, function, first_line, line
FROM user_frames f JOIN user_locations l ON l.trace = f.trace AND l.id = f.location
