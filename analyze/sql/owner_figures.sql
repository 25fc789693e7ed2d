-- Answers: what does each line of the user's code cost, by function? Columns without any sample are NULL.
-- Parameters: none (`selection` and `user_files` hold what was asked for)
-- Columns:
--   trace: which trace, from 1
--   file: file name
--   line: line number
--   function: qualified name
--   first_line: first line of that function
--   ticks: CPU ticks
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
-- Order: none
SELECT trace, file, line, function, first_line, sum(ticks) AS ticks, sum(python_s) AS python_s,
    sum(native_s) AS native_s, sum(parallel_native_s) AS parallel_native_s, sum(system_s) AS system_s,
    sum(gc_s) AS gc_s, sum(sleep_s) AS sleep_s, sum(disk_s) AS disk_s, sum(runnable_s) AS runnable_s,
    sum(gil_s) AS gil_s, sum(suspended_s) AS suspended_s, sum(memory_samples) AS memory_samples,
    sum(growth_bytes) AS growth_bytes, sum(allocated_bytes) AS allocated_bytes,
    sum(python_allocated_bytes) AS python_allocated_bytes, sum(alloc_bytes) AS alloc_bytes,
    sum(alloc_variance) AS alloc_variance, sum(live_at_peak_bytes) AS live_at_peak_bytes,
    sum(live_at_end_bytes) AS live_at_end_bytes, sum(copy_bytes) AS copy_bytes
FROM stack_figures JOIN stack_owners USING (trace, stack)
GROUP BY trace, file, line, function, first_line
