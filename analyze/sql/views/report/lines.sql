-- Answers: what does each line of the user's code cost? Samples are charged to the innermost frame in the user's code.
-- Reads: owner_figures, sampled_intervals
-- Stored: no
-- Columns:
--   trace, file, line
--   function: qualified name; if several functions share the line, that with the most CPU time, then memory
--   first_line, ticks, cpu_s, python_s, native_s, parallel_native_s, unclassified_s, system_s, gc_s, cpu_variance
--   wait_s, sleep_s, disk_s, runnable_s, gil_s, suspended_s, memory_samples, growth_bytes, allocated_bytes
--   python_allocated_bytes, alloc_bytes
--   alloc_python_bytes, alloc_variance, live_at_peak_bytes, live_at_peak_variance, live_at_end_bytes
--   live_at_end_variance, copy_bytes, alloc_interval_bytes, live_interval_bytes
-- Order: CPU time, then growth, then memory allocated, descending; then file and line
WITH parts AS (
    SELECT *, coalesce(python_s + native_s + unclassified_s + system_s, 0) AS part_s,
        coalesce(alloc_bytes, 0) AS part_bytes
    FROM owner_figures
)
SELECT trace, file, line,
    first(function ORDER BY part_s DESC, part_bytes DESC, first_line, function) AS function,
    first(first_line ORDER BY part_s DESC, part_bytes DESC, first_line, function) AS first_line,
    coalesce(sum(ticks), 0)::BIGINT AS ticks, sum(part_s) AS cpu_s, coalesce(sum(python_s), 0) AS python_s,
    coalesce(sum(native_s), 0) AS native_s, coalesce(sum(parallel_native_s), 0) AS parallel_native_s,
    coalesce(sum(unclassified_s), 0) AS unclassified_s, coalesce(sum(system_s), 0) AS system_s,
    coalesce(sum(gc_s), 0) AS gc_s,
    coalesce(sum(cpu_variance), 0) AS cpu_variance,
    coalesce(sum(sleep_s + disk_s + runnable_s + gil_s), 0) AS wait_s,
    coalesce(sum(sleep_s), 0) AS sleep_s, coalesce(sum(disk_s), 0) AS disk_s,
    coalesce(sum(runnable_s), 0) AS runnable_s, coalesce(sum(gil_s), 0) AS gil_s,
    coalesce(sum(suspended_s), 0) AS suspended_s, coalesce(sum(memory_samples), 0)::BIGINT AS memory_samples,
    coalesce(sum(growth_bytes), 0)::BIGINT AS growth_bytes,
    coalesce(sum(allocated_bytes), 0)::BIGINT AS allocated_bytes,
    coalesce(sum(python_allocated_bytes), 0)::BIGINT AS python_allocated_bytes, sum(part_bytes) AS alloc_bytes,
    coalesce(sum(alloc_python_bytes), 0) AS alloc_python_bytes,
    coalesce(sum(alloc_variance), 0) AS alloc_variance, coalesce(sum(live_at_peak_bytes), 0) AS live_at_peak_bytes,
    coalesce(sum(live_at_peak_variance), 0) AS live_at_peak_variance,
    coalesce(sum(live_at_end_bytes), 0) AS live_at_end_bytes,
    coalesce(sum(live_at_end_variance), 0) AS live_at_end_variance, coalesce(sum(copy_bytes), 0)::BIGINT AS copy_bytes,
    greatest(max(alloc_interval_bytes), any_value(base_bytes), 0) AS alloc_interval_bytes,
    greatest(max(live_interval_bytes), any_value(base_bytes), 0) AS live_interval_bytes
FROM parts LEFT JOIN sampled_intervals USING (trace) GROUP BY trace, file, line
ORDER BY cpu_s DESC, growth_bytes DESC, alloc_bytes DESC, file, line
