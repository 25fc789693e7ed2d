-- Answers: which stacks of ticks are charged as the stack on which their thread was started?
-- Those without a line of the user's, of threads that a line of the user's has started (thread_stacks): the work of a
-- pool belongs to the line that has started the pool.
-- Reads: cpu_rows, stack_owners, thread_stacks
-- Stored: yes
-- Columns:
--   trace, thread, stack
--   started_on: stack id that the ticks are charged to
-- Order: none
WITH own AS (SELECT DISTINCT trace, thread, stack FROM cpu_rows SEMI JOIN thread_stacks USING (trace, thread))
SELECT trace, thread, o.stack, t.stack AS started_on
FROM own o JOIN thread_stacks t USING (trace, thread)
ANTI JOIN stack_owners s ON s.trace = o.trace AND s.stack = o.stack
WHERE o.stack IS NOT NULL
