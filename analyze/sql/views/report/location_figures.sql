-- Answers: what do the samples of the selection add up to, by the line that they are charged to?
-- Figures of a kind of which a line has no sample are NULL.
-- Reads: allocation_figures, copies, memory_samples, selected_task_waits, selected_waits, selection, stack_owners,
--     tick_figures
-- Stored: yes
-- Columns:
--   trace, location, ticks, python_s, native_s, parallel_native_s, unclassified_s, system_s, gc_s, cpu_variance
--   sleep_s, disk_s, runnable_s, gil_s, suspended_s, memory_samples, growth_bytes, allocated_bytes
--   python_allocated_bytes, alloc_bytes, alloc_python_bytes, alloc_variance, live_at_peak_bytes
--   live_at_peak_variance, live_at_end_bytes, live_at_end_variance, copy_bytes, alloc_interval_bytes
--   live_interval_bytes
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
    WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, stack)
    GROUP BY trace, location
    UNION ALL BY NAME
    SELECT trace, location, sum(alloc_bytes) AS alloc_bytes, sum(alloc_python_bytes) AS alloc_python_bytes,
        sum(alloc_variance) AS alloc_variance, sum(live_at_peak_bytes) AS live_at_peak_bytes,
        sum(live_at_peak_variance) AS live_at_peak_variance, sum(live_at_end_bytes) AS live_at_end_bytes,
        sum(live_at_end_variance) AS live_at_end_variance, max(alloc_interval_bytes) AS alloc_interval_bytes,
        max(live_interval_bytes) AS live_interval_bytes
    FROM allocation_figures LEFT JOIN owners USING (trace, stack) GROUP BY trace, location
    UNION ALL BY NAME
    SELECT trace, location, sum(bytes) AS copy_bytes
    FROM copies LEFT JOIN owners USING (trace, stack), selection
    WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, stack)
    GROUP BY trace, location
)
SELECT trace, location, sum(COLUMNS(* EXCLUDE (trace, location, alloc_interval_bytes, live_interval_bytes))),
    max(alloc_interval_bytes) AS alloc_interval_bytes, max(live_interval_bytes) AS live_interval_bytes
FROM parts GROUP BY trace, location
