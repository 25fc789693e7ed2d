-- Answers: what do the samples of the selection add up to, by stack?
-- Parameters: none (the table `selection` holds time window, processes and threads)
-- Columns:
--   trace: which trace, from 1
--   stack: stack id; NULL = samples without a Python stack
--   ticks: CPU ticks
--   python_s [s]: user CPU time in Python code
--   native_s [s]: user CPU time in builtins and extensions
--   system_s [s]: kernel CPU time
--   gc_s [s]: the part of the three that garbage collections took
--   memory_samples: footprint samples
--   growth_bytes [bytes]: signed sum of the footprint samples
--   allocated_bytes [bytes]: allocated, gross, between the footprint samples
--   python_allocated_bytes [bytes]: the part of it that went through Python's allocators
-- Order: none
SELECT trace, stack, count(*) AS ticks,
    coalesce(sum(user_s) FILTER (class = 'python'), 0) AS python_s,
    coalesce(sum(user_s) FILTER (class <> 'python'), 0) AS native_s,
    sum(system_s) AS system_s,
    coalesce(sum(user_s + system_s) FILTER (gc), 0) AS gc_s,
    0 AS memory_samples, 0::HUGEINT AS growth_bytes, 0::HUGEINT AS allocated_bytes, 0::HUGEINT AS python_allocated_bytes
FROM cpu_ticks, selection
WHERE coalesce(t_ns >= from_ns, true) AND coalesce(t_ns < to_ns, true)
    AND coalesce(list_contains(process_ids, process), true) AND coalesce(list_contains(thread_ids, thread), true)
GROUP BY trace, stack
UNION ALL
SELECT trace, stack, 0, 0, 0, 0, 0, count(*), sum(net_bytes), sum(allocated_bytes), sum(python_allocated_bytes)
FROM memory_samples, selection
WHERE coalesce(t_ns >= from_ns, true) AND coalesce(t_ns < to_ns, true)
    AND coalesce(list_contains(process_ids, process), true) AND coalesce(list_contains(thread_ids, thread), true)
GROUP BY trace, stack
