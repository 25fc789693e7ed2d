-- Answers: how much do the sums of the view lines vary by the sampling alone? Sums of squares of the samples' weights.
-- Reads: allocations, charged_ticks, copies, memory_samples, process_moments, selected_waits, selection,
--     stack_owners
-- Columns:
--   file, line
--   cpu_variance: squares of the CPU times (s) of ticks
--   wait_variance: squares of the lengths (s) of waits
--   growth_squares: squares of the footprint samples (bytes)
--   growth_gross [bytes]: sum of their absolute values
--   growth_largest [bytes]: the largest of them
--   alloc_variance, live_at_peak_bytes, live_at_peak_variance
--   copy_variance: squares of the sizes (bytes) of copy samples
-- Order: none
WITH parts AS (
    SELECT trace, stack, sum(rounded_s2((user_s + system_s) ** 2)) AS cpu_variance
    FROM charged_ticks, selection
    WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, own_stack)
    GROUP BY trace, stack
    UNION ALL BY NAME
    SELECT trace, stack, sum(wait_s ** 2) AS wait_variance FROM selected_waits GROUP BY trace, stack
    UNION ALL BY NAME
    SELECT trace, stack, sum(net_bytes::DOUBLE ** 2) AS growth_squares, sum(abs(net_bytes)) AS growth_gross,
        max(abs(net_bytes)) AS growth_largest
    FROM memory_samples, selection
    WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, stack)
    GROUP BY trace, stack
    UNION ALL BY NAME
    SELECT trace, stack, sum(alloc_variance) AS alloc_variance,
        sum(live_bytes) FILTER (t_ns <= peak_ns AND coalesce(end_t_ns > peak_ns, true)) AS live_at_peak_bytes,
        sum(live_variance) FILTER (t_ns <= peak_ns AND coalesce(end_t_ns > peak_ns, true)) AS live_at_peak_variance
    FROM allocations LEFT JOIN process_moments USING (trace, process), selection
    WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, stack)
    GROUP BY trace, stack
    UNION ALL BY NAME
    SELECT trace, stack, sum(bytes::DOUBLE ** 2) AS copy_variance
    FROM copies, selection
    WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, stack)
    GROUP BY trace, stack
)
SELECT file, line, coalesce(sum(cpu_variance), 0) AS cpu_variance, coalesce(sum(wait_variance), 0) AS wait_variance,
    coalesce(sum(growth_squares), 0) AS growth_squares, coalesce(sum(growth_gross), 0)::BIGINT AS growth_gross,
    coalesce(max(growth_largest), 0)::BIGINT AS growth_largest, coalesce(sum(alloc_variance), 0) AS alloc_variance,
    coalesce(sum(live_at_peak_bytes), 0) AS live_at_peak_bytes,
    coalesce(sum(live_at_peak_variance), 0) AS live_at_peak_variance, coalesce(sum(copy_variance), 0) AS copy_variance
FROM parts LEFT JOIN stack_owners USING (trace, stack) GROUP BY file, line
