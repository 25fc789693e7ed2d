-- Answers: which line of the user's code is a sample with this stack charged to? That of the innermost frame in it.
-- Stacks without a frame in the user's code are absent.
-- Reads: user_frames, user_locations
-- Stored: yes
-- Columns:
--   trace, stack, file, function, first_line, line
--   location: location id of that line, as in user_locations
-- Order: none
WITH innermost AS (SELECT trace, stack, arg_min(location, depth) AS location FROM user_frames GROUP BY trace, stack)
SELECT i.trace, stack, file, function, first_line, line, location
FROM innermost i JOIN user_locations l ON l.trace = i.trace AND l.id = i.location
