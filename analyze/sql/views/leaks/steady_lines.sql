-- Answers: of which lines did enough allocations survive for one of them to be a leak? 18, 2 of them in the last third.
-- Parameters: none (`selection` and `user_files` hold what was asked for)
-- Columns:
--   trace: which trace, from 1
--   file: file name
--   line: line number
-- Order: none
SELECT trace, file, line FROM allocation_figures JOIN stack_owners USING (trace, stack)
GROUP BY ALL HAVING sum(survivors) >= 18 AND sum(late_survivors) >= 2
