-- Answers: what do the samples of the selection add up to, by the line that they are charged to?
-- Figures of kinds that a line has no sample of are NULL.
-- Parameters: none (`selection` and `user_files` hold what was asked for)
-- Columns:
--   trace: which trace, from 1
--   location: location id of the line, as in stack_owners; NULL = samples without any frame of the user's
--   ticks: CPU ticks
--   python_s [s]: user CPU time in Python code
--   native_s [s]: user CPU time in builtins and extensions
--   parallel_native_s [s]: the part of native_s that threads of libraries spent for it
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
WITH owners AS (SELECT trace, stack, location FROM stack_owners), parts AS (
    SELECT * FROM tick_figures
    UNION ALL BY NAME
    SELECT trace, location, sum(if(class = 'sleep', wait_s, 0)) AS sleep_s,
        sum(if(class = 'disk', wait_s, 0)) AS disk_s, sum(if(class = 'runnable', wait_s, 0)) AS runnable_s,
        sum(if(class = 'gil', wait_s, 0)) AS gil_s
    FROM selected_waits LEFT JOIN owners USING (trace, stack) GROUP BY trace, location
    UNION ALL BY NAME
    SELECT trace, location, sum(suspended_s) AS suspended_s
    FROM selected_task_waits LEFT JOIN owners USING (trace, stack) GROUP BY trace, location
    UNION ALL BY NAME
    SELECT trace, location, count(*) AS memory_samples, sum(net_bytes) AS growth_bytes,
        sum(allocated_bytes) AS allocated_bytes, sum(python_allocated_bytes) AS python_allocated_bytes
    FROM memory_samples LEFT JOIN owners USING (trace, stack), selection
    WHERE (from_ns IS NULL OR t_ns >= from_ns) AND (to_ns IS NULL OR t_ns < to_ns)
        AND (process_ids IS NULL OR list_contains(process_ids, process))
        AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
    GROUP BY trace, location
    UNION ALL BY NAME
    SELECT trace, location, sum(alloc_bytes) AS alloc_bytes, sum(alloc_variance) AS alloc_variance,
        sum(live_at_peak_bytes) AS live_at_peak_bytes, sum(live_at_end_bytes) AS live_at_end_bytes
    FROM allocation_figures LEFT JOIN owners USING (trace, stack) GROUP BY trace, location
    UNION ALL BY NAME
    SELECT trace, location, sum(bytes) AS copy_bytes
    FROM copies LEFT JOIN owners USING (trace, stack), selection
    WHERE (from_ns IS NULL OR t_ns >= from_ns) AND (to_ns IS NULL OR t_ns < to_ns)
        AND (process_ids IS NULL OR list_contains(process_ids, process))
        AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
    GROUP BY trace, location
)
SELECT trace, location, sum(COLUMNS(* EXCLUDE (trace, location))) FROM parts GROUP BY trace, location
