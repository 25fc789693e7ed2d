-- Answers: what does each line of the user's code cost, by function?
-- Figures of a kind of which a line has no sample are NULL.
-- Reads: location_figures, user_locations
-- Stored: yes
-- Columns:
--   trace, file, line, function, first_line, ticks, python_s, native_s, parallel_native_s, unclassified_s, system_s
--   gc_s, cpu_variance, sleep_s, disk_s, runnable_s, gil_s, suspended_s, memory_samples, growth_bytes, allocated_bytes
--   python_allocated_bytes, alloc_bytes, alloc_python_bytes, alloc_variance, live_at_peak_bytes
--   live_at_peak_variance, live_at_end_bytes, live_at_end_variance, copy_bytes, alloc_interval_bytes
--   live_interval_bytes
-- Order: none
SELECT f.trace, file, line, function, first_line,
    sum(COLUMNS(f.* EXCLUDE (trace, location, alloc_interval_bytes, live_interval_bytes))),
    max(alloc_interval_bytes) AS alloc_interval_bytes, max(live_interval_bytes) AS live_interval_bytes
FROM location_figures f JOIN user_locations l ON l.trace = f.trace AND l.id = f.location GROUP BY ALL
