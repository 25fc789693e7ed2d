-- Answers: what do the samples whose stacks contain each function of the user's code add up to?
-- Each stack counts once, even if the function recurses.
-- Reads: allocation_figures, copies, memory_samples, selected_task_waits, selected_waits, selection, stack_cpu,
--     user_frames, user_locations
-- Stored: no
-- Columns:
--   trace, file, function, first_line
--   cumulative_cpu_s [s]: CPU time of these stacks; NULL = none of them has a tick
--   cumulative_cpu_variance, cumulative_wait_s, cumulative_alloc_bytes, cumulative_alloc_variance
--   cumulative_live_at_peak_bytes, cumulative_live_at_peak_variance, cumulative_live_at_end_bytes
--   cumulative_live_at_end_variance
-- Order: none
WITH held AS (SELECT DISTINCT trace, stack, number FROM user_frames), costs AS (
    SELECT * FROM stack_cpu
    UNION ALL BY NAME SELECT trace, stack, sum(wait_s) AS wait_s FROM selected_waits GROUP BY trace, stack
    UNION ALL BY NAME SELECT DISTINCT trace, stack FROM selected_task_waits
    UNION ALL BY NAME SELECT trace, stack, alloc_bytes, alloc_variance, live_at_peak_bytes, live_at_peak_variance,
        live_at_end_bytes, live_at_end_variance
    FROM allocation_figures
    UNION ALL BY NAME SELECT DISTINCT trace, stack FROM memory_samples, selection
    WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, stack)
    UNION ALL BY NAME SELECT DISTINCT trace, stack FROM copies, selection
    WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, stack)
), sums AS (
    SELECT trace, number, sum(cpu_s) AS cumulative_cpu_s, sum(cpu_variance) AS cumulative_cpu_variance,
        sum(wait_s) AS cumulative_wait_s, sum(alloc_bytes) AS cumulative_alloc_bytes,
        sum(alloc_variance) AS cumulative_alloc_variance, sum(live_at_peak_bytes) AS cumulative_live_at_peak_bytes,
        sum(live_at_peak_variance) AS cumulative_live_at_peak_variance,
        sum(live_at_end_bytes) AS cumulative_live_at_end_bytes,
        sum(live_at_end_variance) AS cumulative_live_at_end_variance
    FROM held JOIN costs USING (trace, stack) GROUP BY trace, number
)
SELECT trace, file, function, first_line, sums.* EXCLUDE (trace, number)
FROM sums JOIN (SELECT DISTINCT trace, number, file, function, first_line FROM user_locations) USING (trace, number)
