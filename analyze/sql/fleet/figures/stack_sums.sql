-- Answers: what do stacks cost in the selected traces together?
-- Reads: fleet_figures, selected_traces
-- Columns:
--   stack: frames from the outermost on; (other) = stacks that are small in their traces
--   cpu_s: CPU time
--   traces: in how many traces the stack has a row of its own
-- Order: CPU time, descending, then stack
SELECT stack, sum(value) AS cpu_s, count(*) AS traces
FROM fleet_figures f JOIN selected_traces s ON f.trace = s.trace
WHERE scope = 'stack' AND metric = 'cpu_s' AND stack IS NOT NULL
GROUP BY stack ORDER BY cpu_s DESC, stack
