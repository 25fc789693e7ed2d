-- Answers: which frames of each stack are in the user's code?
-- Parameters: none (`user_files` holds whose files those are)
-- Columns:
--   trace: which trace, from 1
--   stack: stack id
--   depth: 1 = innermost frame of all
--   location: location id, as in user_locations
-- Order: none
WITH frames AS (
    SELECT trace, stack, unnest(locations) AS location, generate_subscripts(locations, 1) AS depth FROM stacks
)
SELECT trace, stack, depth, location FROM frames
SEMI JOIN (SELECT trace, id AS location FROM user_locations) USING (trace, location)
