-- Answers: on which stack of the user's code was each thread started?
-- A thread that was started by a thread without a line of the user's belongs to where that one was started, and so on.
-- Threads that no line of the user's has started are absent.
-- Reads: stack_owners, threads
-- Stored: yes
-- Columns:
--   trace, thread
--   stack: stack id of the thread that has started it, or of the one that has started that one
-- Order: none
WITH RECURSIVE starts AS (
    SELECT t.trace, t.thread, starter, start_stack AS stack, o.stack IS NOT NULL AS is_owned
    FROM threads t LEFT JOIN stack_owners o ON o.trace = t.trace AND o.stack = start_stack
    WHERE starter IS NOT NULL OR start_stack IS NOT NULL
), lines AS (
    SELECT *, 1 AS generation FROM starts
    UNION ALL
    SELECT l.trace, l.thread, s.starter, s.stack, s.is_owned, generation + 1
    FROM lines l JOIN starts s ON s.trace = l.trace AND s.thread = l.starter
    WHERE NOT l.is_owned AND generation < 16
)
SELECT trace, thread, stack FROM lines WHERE is_owned
