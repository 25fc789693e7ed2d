-- Answers: how many allocations had each process made, moment by moment?
-- Reads: allocations
-- Stored: no
-- Columns:
--   trace, process, t_ns
--   made: allocations from the start of the process up to this moment, estimated
-- Order: none
SELECT trace, process, t_ns, sum(sum(alloc_count)) OVER (PARTITION BY trace, process ORDER BY t_ns) AS made
FROM allocations WHERE weight IS NOT NULL GROUP BY trace, process, t_ns
