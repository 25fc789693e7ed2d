-- Answers: what do the CPU ticks of each thread add up to?
-- Parameters: none
-- Columns:
--   trace: which trace, from 1
--   process: process id
--   thread: thread id
--   ticks: ticks that carry time
--   sampled_ns [ns]: sum of their weights
--   has_python: at one of its ticks at least, the thread may have had a Python thread state
-- Order: none
SELECT trace, process, thread, count(*) FILTER (user_ns + system_ns > 0) AS ticks,
    sum(user_ns + system_ns) AS sampled_ns, bool_or(has_python IS DISTINCT FROM false) AS has_python
FROM cpu_rows GROUP BY trace, process, thread
