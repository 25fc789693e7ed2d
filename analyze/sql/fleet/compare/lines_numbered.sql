-- Answers: which number has each line of each version?
-- Parameters:
--   metric: name of the metric
--   codes: of each place, its number in compared_places times 2^32, plus the number of its line. (Of two
--     unnests, Spark combines each row of one with each of the other.)
-- Reads: compared_places
-- Columns:
--   version: as in compared_places
--   code: as in compared_places
--   number: the number
-- Order: none
WITH codes AS (SELECT unnest($codes::BIGINT[]) AS code),
numbered AS (SELECT code // 4294967296 AS place, (code % 4294967296)::INTEGER AS number FROM codes)
SELECT p.version, p.code, n.number
FROM compared_places p JOIN numbered n ON p.place = n.place WHERE p.metric = $metric
