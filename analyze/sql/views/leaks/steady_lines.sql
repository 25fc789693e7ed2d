-- Answers: of which lines did enough allocations survive for one of them to be a leak? 18, 2 of them in the last third.
-- Reads: allocation_figures, stack_owners
-- Stored: yes
-- Columns:
--   trace, file, line
-- Order: none
SELECT trace, file, line FROM allocation_figures JOIN stack_owners USING (trace, stack)
GROUP BY ALL HAVING has_enough_survivors(sum(survivors), sum(late_survivors))
