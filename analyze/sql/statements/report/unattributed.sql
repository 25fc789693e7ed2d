-- Answers: what do the samples without any frame of the user's add up to? All = these + lines.
-- Parameters: none (`selection` and `user_files` hold what was asked for)
-- Columns:
--   ticks: CPU ticks
--   cpu_s [s]: CPU time: python_s + native_s + system_s
--   python_s [s]: user CPU time in Python code
--   native_s [s]: user CPU time in builtins and extensions
--   parallel_native_s [s]: the part of native_s that threads of libraries spent for such code
--   system_s [s]: kernel CPU time
--   gc_s [s]: the part of cpu_s that garbage collections took
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
-- Order: one row
SELECT coalesce(sum(ticks), 0)::BIGINT AS ticks, coalesce(sum(python_s + native_s + system_s), 0) AS cpu_s,
    coalesce(sum(python_s), 0) AS python_s, coalesce(sum(native_s), 0) AS native_s,
    coalesce(sum(parallel_native_s), 0) AS parallel_native_s,
    coalesce(sum(system_s), 0) AS system_s, coalesce(sum(gc_s), 0) AS gc_s,
    coalesce(sum(sleep_s), 0) AS sleep_s, coalesce(sum(disk_s), 0) AS disk_s,
    coalesce(sum(runnable_s), 0) AS runnable_s, coalesce(sum(gil_s), 0) AS gil_s,
    coalesce(sum(suspended_s), 0) AS suspended_s,
    coalesce(sum(memory_samples), 0)::BIGINT AS memory_samples, coalesce(sum(growth_bytes), 0)::BIGINT AS growth_bytes,
    coalesce(sum(allocated_bytes), 0)::BIGINT AS allocated_bytes,
    coalesce(sum(python_allocated_bytes), 0)::BIGINT AS python_allocated_bytes,
    coalesce(sum(alloc_bytes), 0) AS alloc_bytes, coalesce(sum(alloc_variance), 0) AS alloc_variance,
    coalesce(sum(live_at_peak_bytes), 0) AS live_at_peak_bytes,
    coalesce(sum(live_at_end_bytes), 0) AS live_at_end_bytes, coalesce(sum(copy_bytes), 0)::BIGINT AS copy_bytes
FROM location_figures WHERE location IS NULL
