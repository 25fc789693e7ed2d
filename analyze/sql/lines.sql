-- Answers: what does each line of the user's code cost? Samples belong to the innermost frame of the user's.
-- Parameters: none (`selection` and `user_files` hold what was asked for)
-- Columns:
--   trace: which trace, from 1
--   file: file name
--   line: line number
--   function: qualified name; where several functions share the line, the one with the most CPU time
--   first_line: first line of that function
--   ticks: CPU ticks
--   cpu_s [s]: CPU time: python_s + native_s + system_s
--   python_s [s]: user CPU time in Python code
--   native_s [s]: user CPU time in builtins and extensions
--   system_s [s]: kernel CPU time
--   gc_s [s]: the part of cpu_s that garbage collections took
--   memory_samples: footprint samples
--   growth_bytes [bytes]: signed sum of the footprint samples
--   allocated_bytes [bytes]: allocated, gross, between the footprint samples
--   python_allocated_bytes [bytes]: the part of it that went through Python's allocators
-- Order: CPU time, then growth, descending; then file and line
WITH parts AS (
    SELECT trace, file, line, function, first_line, sum(ticks) AS ticks, sum(python_s) AS python_s,
        sum(native_s) AS native_s, sum(system_s) AS system_s, sum(gc_s) AS gc_s, sum(memory_samples) AS memory_samples,
        sum(growth_bytes) AS growth_bytes, sum(allocated_bytes) AS allocated_bytes,
        sum(python_allocated_bytes) AS python_allocated_bytes, sum(python_s + native_s + system_s) AS part_s
    FROM stack_figures JOIN stack_owners USING (trace, stack)
    GROUP BY trace, file, line, function, first_line
)
SELECT trace, file, line,
    first(function ORDER BY part_s DESC, first_line, function) AS function,
    first(first_line ORDER BY part_s DESC, first_line, function) AS first_line,
    sum(ticks)::BIGINT AS ticks, sum(part_s) AS cpu_s, sum(python_s) AS python_s, sum(native_s) AS native_s,
    sum(system_s) AS system_s, sum(gc_s) AS gc_s, sum(memory_samples)::BIGINT AS memory_samples,
    sum(growth_bytes)::BIGINT AS growth_bytes, sum(allocated_bytes)::BIGINT AS allocated_bytes,
    sum(python_allocated_bytes)::BIGINT AS python_allocated_bytes
FROM parts GROUP BY trace, file, line
ORDER BY cpu_s DESC, growth_bytes DESC, file, line
