-- Answers: how are the sides called?
-- Reads: compared_traces
-- Columns:
--   side: number and name of the side
--   name: number and name of the side
-- Order: number
SELECT DISTINCT side, name FROM compared_traces ORDER BY side
