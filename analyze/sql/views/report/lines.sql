-- Answers: what does each line of the user's code cost? Samples belong to the innermost frame of the user's.
-- Parameters: none (`selection` and `user_files` hold what was asked for)
-- Columns:
--   trace: which trace, from 1
--   file: file name
--   line: line number
--   function: qualified name; where several functions share the line, the one with the most CPU time, then memory
--   first_line: first line of that function
--   ticks: CPU ticks
--   cpu_s [s]: CPU time: python_s + native_s + system_s
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
--   memory_samples: footprint samples
--   growth_bytes [bytes]: signed sum of the footprint samples
--   allocated_bytes [bytes]: allocated, gross, between the footprint samples
--   python_allocated_bytes [bytes]: the part of it that went through Python's allocators
--   alloc_bytes [bytes]: allocated, estimated from the allocation samples
--   alloc_variance: square of its standard error
--   live_at_peak_bytes [bytes]: alive when the footprint of the process tree was highest, estimated
--   live_at_end_bytes [bytes]: alive at the end of their process, estimated
--   copy_bytes [bytes]: copied by memcpy and memmove
-- Order: CPU time, then growth, then memory allocated, descending; then file and line
WITH parts AS (
    SELECT *, coalesce(python_s + native_s + system_s, 0) AS part_s, coalesce(alloc_bytes, 0) AS part_bytes
    FROM owner_figures
)
SELECT trace, file, line,
    first(function ORDER BY part_s DESC, part_bytes DESC, first_line, function) AS function,
    first(first_line ORDER BY part_s DESC, part_bytes DESC, first_line, function) AS first_line,
    coalesce(sum(ticks), 0)::BIGINT AS ticks, sum(part_s) AS cpu_s, coalesce(sum(python_s), 0) AS python_s,
    coalesce(sum(native_s), 0) AS native_s, coalesce(sum(parallel_native_s), 0) AS parallel_native_s,
    coalesce(sum(system_s), 0) AS system_s, coalesce(sum(gc_s), 0) AS gc_s,
    coalesce(sum(sleep_s), 0) AS sleep_s, coalesce(sum(disk_s), 0) AS disk_s,
    coalesce(sum(runnable_s), 0) AS runnable_s, coalesce(sum(gil_s), 0) AS gil_s,
    coalesce(sum(suspended_s), 0) AS suspended_s, coalesce(sum(memory_samples), 0)::BIGINT AS memory_samples,
    coalesce(sum(growth_bytes), 0)::BIGINT AS growth_bytes,
    coalesce(sum(allocated_bytes), 0)::BIGINT AS allocated_bytes,
    coalesce(sum(python_allocated_bytes), 0)::BIGINT AS python_allocated_bytes, sum(part_bytes) AS alloc_bytes,
    coalesce(sum(alloc_variance), 0) AS alloc_variance, coalesce(sum(live_at_peak_bytes), 0) AS live_at_peak_bytes,
    coalesce(sum(live_at_end_bytes), 0) AS live_at_end_bytes, coalesce(sum(copy_bytes), 0)::BIGINT AS copy_bytes
FROM parts GROUP BY trace, file, line
ORDER BY cpu_s DESC, growth_bytes DESC, alloc_bytes DESC, file, line
