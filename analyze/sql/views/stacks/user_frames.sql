-- Answers: which frames of each stack are in the user's code?
-- Reads: stacks, user_locations
-- Stored: yes
-- Columns:
--   trace, stack
--   depth: as in stack_frames
--   location: location id, as in user_locations
--   number: number of the function, as in user_locations
-- Order: none
WITH frames AS (
    SELECT trace, stack, unnest(locations) AS location, generate_subscripts(locations, 1) AS depth FROM stacks
)
SELECT f.trace, stack, depth::INTEGER AS depth, location, number
FROM frames f JOIN (SELECT trace, id, number FROM user_locations) l ON l.trace = f.trace AND l.id = f.location
