-- Answers: which number has each line of each version?
-- Parameters:
--   places: numbers of the lines of versions
--   numbers: the number of each of them
-- Reads: compared_places
-- Columns:
--   version: as in compared_places
--   number_of_text: as in compared_places
--   number: the number
-- Order: none
WITH numbered AS (SELECT unnest($places::BIGINT[]) AS place, unnest($numbers::INTEGER[]) AS number)
SELECT DISTINCT p.version, p.number_of_text, n.number
FROM compared_places p JOIN numbered n ON p.place = n.place
