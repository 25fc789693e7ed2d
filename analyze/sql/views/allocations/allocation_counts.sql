-- Answers: how many allocations had each process made, moment by moment?
-- Parameters: none
-- Columns:
--   trace: which trace, from 1
--   process: process id
--   t_ns [ns]: when one of them was sampled, from the start of the recording
--   made: allocations from the start of the process up to this moment, estimated
-- Order: none
SELECT trace, process, t_ns, sum(sum(alloc_count)) OVER (PARTITION BY trace, process ORDER BY t_ns) AS made
FROM allocations WHERE weight IS NOT NULL GROUP BY trace, process, t_ns
