-- Answers: what do the CPU ticks of each thread add up to?
-- Reads: stack_ticks
-- Stored: yes
-- Columns:
--   trace, process, thread
--   ticks: ticks that carry time
--   sampled_ns
--   has_python: at one of its ticks at least, the thread may have had a Python thread state
-- Order: none
SELECT trace, process, thread, sum(weighed)::BIGINT AS ticks, sum(user_ns + system_ns)::HUGEINT AS sampled_ns,
    bool_or(has_python) AS has_python
FROM stack_ticks GROUP BY trace, process, thread
