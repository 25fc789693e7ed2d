-- Answers: what do the CPU ticks of each thread add up to?
-- Reads: stack_ticks
-- Stored: yes
-- Columns:
--   trace, process, thread
--   ticks: number of ticks that carry time
--   sampled_ns
--   has_python: the thread may have had a Python thread state at one of its ticks
-- Order: none
SELECT trace, process, thread, sum(weighed)::BIGINT AS ticks, sum(user_ns + system_ns)::HUGEINT AS sampled_ns,
    bool_or(has_python) AS has_python
FROM stack_ticks GROUP BY trace, process, thread
