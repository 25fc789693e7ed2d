-- Answers: what does each function of the user's code cost, by itself and with all that it calls?
-- Parameters: none (`selection` and `user_files` hold what was asked for)
-- Columns:
--   trace: which trace, from 1
--   file: file name
--   function: qualified name
--   first_line: first line of the function
--   ticks: CPU ticks charged to the function itself
--   cumulative_cpu_s [s]: CPU time of all stacks that hold the function, each counted once even when it recurses
--   cpu_s [s]: CPU time charged to the function itself: python_s + native_s + system_s
--   python_s [s]: user CPU time in Python code
--   native_s [s]: user CPU time in builtins and extensions
--   parallel_native_s [s]: the part of native_s that threads of libraries spent for it
--   system_s [s]: kernel CPU time
--   gc_s [s]: the part of cpu_s that garbage collections took
--   sleep_s [s]: waiting, blocked in a system call
--   disk_s [s]: waiting, uninterruptible
--   runnable_s [s]: waiting for the CPU
--   gil_s [s]: waiting for the interpreter's lock
--   suspended_s [s]: asyncio tasks that were suspended, in sum
--   memory_samples: footprint samples charged to the function itself
--   growth_bytes [bytes]: signed sum of the footprint samples
--   allocated_bytes [bytes]: allocated, gross, between the footprint samples
--   python_allocated_bytes [bytes]: the part of it that went through Python's allocators
--   alloc_bytes [bytes]: allocated, estimated from the allocation samples
--   alloc_variance: square of its standard error
--   live_at_peak_bytes [bytes]: alive when the footprint of the process tree was highest, estimated
--   live_at_end_bytes [bytes]: alive at the end of their process, estimated
--   copy_bytes [bytes]: copied by memcpy and memmove
-- Order: CPU time by itself, then cumulative, then memory allocated, descending; then file, first line and function
WITH own AS (
    SELECT trace, file, function, first_line, sum(COLUMNS(* EXCLUDE (trace, file, line, function, first_line)))
    FROM owner_figures GROUP BY trace, file, function, first_line
)
SELECT trace, file, function, first_line, coalesce(ticks, 0)::BIGINT AS ticks,
    greatest(coalesce(cumulative_cpu_s, 0), coalesce(python_s + native_s + system_s, 0)) -- rounded apart
        AS cumulative_cpu_s,
    coalesce(python_s + native_s + system_s, 0) AS cpu_s, coalesce(python_s, 0) AS python_s,
    coalesce(native_s, 0) AS native_s, coalesce(parallel_native_s, 0) AS parallel_native_s,
    coalesce(system_s, 0) AS system_s, coalesce(gc_s, 0) AS gc_s,
    coalesce(sleep_s, 0) AS sleep_s, coalesce(disk_s, 0) AS disk_s, coalesce(runnable_s, 0) AS runnable_s,
    coalesce(gil_s, 0) AS gil_s, coalesce(suspended_s, 0) AS suspended_s,
    coalesce(memory_samples, 0)::BIGINT AS memory_samples, coalesce(growth_bytes, 0)::BIGINT AS growth_bytes,
    coalesce(allocated_bytes, 0)::BIGINT AS allocated_bytes,
    coalesce(python_allocated_bytes, 0)::BIGINT AS python_allocated_bytes, coalesce(alloc_bytes, 0) AS alloc_bytes,
    coalesce(alloc_variance, 0) AS alloc_variance, coalesce(live_at_peak_bytes, 0) AS live_at_peak_bytes,
    coalesce(live_at_end_bytes, 0) AS live_at_end_bytes, coalesce(copy_bytes, 0)::BIGINT AS copy_bytes
FROM cumulative_figures LEFT JOIN own USING (trace, file, function, first_line)
ORDER BY cpu_s DESC, cumulative_cpu_s DESC, alloc_bytes DESC, file, first_line, function
