-- Answers: what do the samples of the selection add up to, by stack?
-- A stack has a row for each kind of its samples; figures of other kinds are NULL there.
-- Parameters: none (the table `selection` holds time window, processes and threads)
-- Columns:
--   trace: which trace, from 1
--   stack: stack id; NULL = samples without a Python stack
--   ticks: CPU ticks
--   python_s [s]: user CPU time in Python code
--   native_s [s]: user CPU time in builtins and extensions
--   parallel_native_s [s]: the part of native_s that threads of libraries spent for the stack
--   system_s [s]: kernel CPU time
--   gc_s [s]: the part of the three that garbage collections took
--   sleep_s [s]: waiting, blocked in a system call
--   disk_s [s]: waiting, uninterruptible
--   runnable_s [s]: waiting for the CPU
--   gil_s [s]: waiting for the interpreter's lock
--   suspended_s [s]: asyncio tasks that were suspended, in sum
--   memory_samples: footprint samples
--   growth_bytes [bytes]: signed sum of the footprint samples
--   allocated_bytes [bytes]: allocated, gross, between the footprint samples
--   python_allocated_bytes [bytes]: the part of it that went through Python's allocators
--   alloc_bytes [bytes]: allocated, estimated from the allocation samples
--   alloc_variance: square of its standard error
--   live_at_peak_bytes [bytes]: alive when the footprint of the process tree was highest, estimated
--   live_at_end_bytes [bytes]: alive at the end of their process, estimated
--   copy_bytes [bytes]: copied by memcpy and memmove
-- Order: none
SELECT trace, stack, sum(ticks) AS ticks,
    coalesce(sum(user_s) FILTER (NOT is_native), 0) AS python_s,
    coalesce(sum(user_s) FILTER (is_native), 0) AS native_s,
    coalesce(sum(user_s) FILTER (is_parallel), 0) AS parallel_native_s,
    sum(system_s) AS system_s,
    coalesce(sum(user_s + system_s) FILTER (gc), 0) AS gc_s
FROM tick_figures GROUP BY trace, stack
UNION ALL BY NAME
SELECT trace, stack, coalesce(sum(wait_s) FILTER (class = 'sleep'), 0) AS sleep_s,
    coalesce(sum(wait_s) FILTER (class = 'disk'), 0) AS disk_s,
    coalesce(sum(wait_s) FILTER (class = 'runnable'), 0) AS runnable_s,
    coalesce(sum(wait_s) FILTER (class = 'gil'), 0) AS gil_s
FROM selected_waits GROUP BY trace, stack
UNION ALL BY NAME
SELECT trace, stack, sum(suspended_s) AS suspended_s FROM selected_task_waits GROUP BY trace, stack
UNION ALL BY NAME
SELECT trace, stack, count(*) AS memory_samples, sum(net_bytes) AS growth_bytes,
    sum(allocated_bytes) AS allocated_bytes, sum(python_allocated_bytes) AS python_allocated_bytes
FROM memory_samples, selection
WHERE coalesce(t_ns >= from_ns, true) AND coalesce(t_ns < to_ns, true)
    AND (process_ids IS NULL OR list_contains(process_ids, process))
    AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
GROUP BY trace, stack
UNION ALL BY NAME
SELECT trace, stack, alloc_bytes, alloc_variance, live_at_peak_bytes, live_at_end_bytes FROM allocation_figures
UNION ALL BY NAME
SELECT trace, stack, sum(bytes) AS copy_bytes
FROM copies, selection
WHERE coalesce(t_ns >= from_ns, true) AND coalesce(t_ns < to_ns, true)
    AND (process_ids IS NULL OR list_contains(process_ids, process))
    AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
GROUP BY trace, stack
