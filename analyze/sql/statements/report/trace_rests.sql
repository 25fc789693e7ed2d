-- Answers: what do the samples of each trace without a frame in the user's code add up to?
-- Parameters:
--   traces: the number of opened traces
-- Reads: location_figures, sampled_intervals
-- Columns:
--   trace, ticks, cpu_s, python_s, native_s, parallel_native_s, unclassified_s, system_s, gc_s, cpu_variance, sleep_s
--   disk_s, runnable_s, gil_s, suspended_s, memory_samples, growth_bytes, allocated_bytes, python_allocated_bytes
--   alloc_bytes
--   alloc_python_bytes, alloc_variance, live_at_peak_bytes, live_at_peak_variance, live_at_end_bytes
--   live_at_end_variance, copy_bytes, alloc_interval_bytes, live_interval_bytes
-- Order: trace
SELECT t.trace, coalesce(sum(ticks), 0)::BIGINT AS ticks,
    coalesce(sum(python_s + native_s + unclassified_s + system_s), 0) AS cpu_s,
    coalesce(sum(python_s), 0) AS python_s, coalesce(sum(native_s), 0) AS native_s,
    coalesce(sum(parallel_native_s), 0) AS parallel_native_s,
    coalesce(sum(unclassified_s), 0) AS unclassified_s, coalesce(sum(system_s), 0) AS system_s,
    coalesce(sum(gc_s), 0) AS gc_s,
    coalesce(sum(cpu_variance), 0) AS cpu_variance,
    coalesce(sum(sleep_s), 0) AS sleep_s, coalesce(sum(disk_s), 0) AS disk_s,
    coalesce(sum(runnable_s), 0) AS runnable_s, coalesce(sum(gil_s), 0) AS gil_s,
    coalesce(sum(suspended_s), 0) AS suspended_s,
    coalesce(sum(memory_samples), 0)::BIGINT AS memory_samples, coalesce(sum(growth_bytes), 0)::BIGINT AS growth_bytes,
    coalesce(sum(allocated_bytes), 0)::BIGINT AS allocated_bytes,
    coalesce(sum(python_allocated_bytes), 0)::BIGINT AS python_allocated_bytes,
    coalesce(sum(alloc_bytes), 0) AS alloc_bytes, coalesce(sum(alloc_python_bytes), 0) AS alloc_python_bytes,
    coalesce(sum(alloc_variance), 0) AS alloc_variance,
    coalesce(sum(live_at_peak_bytes), 0) AS live_at_peak_bytes,
    coalesce(sum(live_at_peak_variance), 0) AS live_at_peak_variance,
    coalesce(sum(live_at_end_bytes), 0) AS live_at_end_bytes,
    coalesce(sum(live_at_end_variance), 0) AS live_at_end_variance, coalesce(sum(copy_bytes), 0)::BIGINT AS copy_bytes,
    greatest(max(alloc_interval_bytes), any_value(base_bytes), 0) AS alloc_interval_bytes,
    greatest(max(live_interval_bytes), any_value(base_bytes), 0) AS live_interval_bytes
FROM (SELECT unnest(range(1, $traces + 1)) AS trace) t
LEFT JOIN (FROM location_figures WHERE location IS NULL) f ON f.trace = t.trace
LEFT JOIN sampled_intervals i ON i.trace = t.trace
GROUP BY t.trace ORDER BY t.trace
