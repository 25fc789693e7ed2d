-- Answers: what does each function of the user's code cost, by itself and with everything that it calls?
-- Reads: cumulative_figures, owner_figures, sampled_intervals
-- Stored: no
-- Columns:
--   trace, file, function, first_line
--   ticks: CPU ticks charged to the function itself
--   cumulative_cpu_s [s]: CPU time of all stacks that contain the function, each counted once even if it recurses
--   cumulative_cpu_variance, cumulative_wait_s, cumulative_alloc_bytes, cumulative_alloc_variance
--   cumulative_live_at_peak_bytes, cumulative_live_at_peak_variance, cumulative_live_at_end_bytes
--   cumulative_live_at_end_variance
--   cpu_s, python_s, native_s, parallel_native_s, unclassified_s, system_s, gc_s, cpu_variance
--   wait_s, sleep_s, disk_s, runnable_s, gil_s
--   suspended_s
--   memory_samples, growth_bytes, allocated_bytes, python_allocated_bytes, alloc_bytes, alloc_python_bytes
--   alloc_variance, live_at_peak_bytes, live_at_peak_variance, live_at_end_bytes, live_at_end_variance, copy_bytes
--   alloc_interval_bytes, live_interval_bytes
-- Order: CPU time by itself, then cumulative, then memory allocated, descending; then file, first line and function
WITH own AS (
    SELECT trace, file, function, first_line, max(alloc_interval_bytes) AS alloc_interval,
        max(live_interval_bytes) AS live_interval, sum(COLUMNS(* EXCLUDE (
            trace, file, line, function, first_line, alloc_interval_bytes, live_interval_bytes)))
    FROM owner_figures GROUP BY trace, file, function, first_line
)
SELECT trace, file, function, first_line, coalesce(ticks, 0)::BIGINT AS ticks,
    greatest(coalesce(cumulative_cpu_s, 0), coalesce(python_s + native_s + unclassified_s + system_s, 0))
        AS cumulative_cpu_s, -- rounded apart
    coalesce(COLUMNS(c.* EXCLUDE (trace, file, function, first_line, cumulative_cpu_s)), 0),
    coalesce(python_s + native_s + unclassified_s + system_s, 0) AS cpu_s, coalesce(python_s, 0) AS python_s,
    coalesce(native_s, 0) AS native_s, coalesce(parallel_native_s, 0) AS parallel_native_s,
    coalesce(unclassified_s, 0) AS unclassified_s,
    coalesce(system_s, 0) AS system_s, coalesce(gc_s, 0) AS gc_s, coalesce(cpu_variance, 0) AS cpu_variance,
    coalesce(sleep_s + disk_s + runnable_s + gil_s, 0) AS wait_s,
    coalesce(sleep_s, 0) AS sleep_s, coalesce(disk_s, 0) AS disk_s, coalesce(runnable_s, 0) AS runnable_s,
    coalesce(gil_s, 0) AS gil_s, coalesce(suspended_s, 0) AS suspended_s,
    coalesce(memory_samples, 0)::BIGINT AS memory_samples, coalesce(growth_bytes, 0)::BIGINT AS growth_bytes,
    coalesce(allocated_bytes, 0)::BIGINT AS allocated_bytes,
    coalesce(python_allocated_bytes, 0)::BIGINT AS python_allocated_bytes, coalesce(alloc_bytes, 0) AS alloc_bytes,
    coalesce(alloc_python_bytes, 0) AS alloc_python_bytes, coalesce(alloc_variance, 0) AS alloc_variance,
    coalesce(live_at_peak_bytes, 0) AS live_at_peak_bytes,
    coalesce(live_at_peak_variance, 0) AS live_at_peak_variance,
    coalesce(live_at_end_bytes, 0) AS live_at_end_bytes, coalesce(live_at_end_variance, 0) AS live_at_end_variance,
    coalesce(copy_bytes, 0)::BIGINT AS copy_bytes,
    greatest(alloc_interval, base_bytes, 0) AS alloc_interval_bytes,
    greatest(live_interval, base_bytes, 0) AS live_interval_bytes
FROM cumulative_figures c LEFT JOIN own USING (trace, file, function, first_line)
LEFT JOIN sampled_intervals USING (trace)
ORDER BY cpu_s DESC, cumulative_cpu_s DESC, alloc_bytes DESC, file, first_line, function
