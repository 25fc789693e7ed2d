-- Answers: of which lines did enough allocations survive for a leak (has_enough_survivors)?
-- Reads: allocation_figures, stack_owners
-- Stored: yes
-- Columns:
--   trace, file, line
-- Order: none
SELECT trace, file, line FROM allocation_figures JOIN stack_owners USING (trace, stack)
GROUP BY ALL HAVING has_enough_survivors(sum(survivors), sum(late_survivors))
