-- Answers: what do the allocation samples of the selection add up to, by stack?
-- The time window selects allocations by when they were made. Allocations that were followed and are evidence for
-- leaks (is_evidence; docs/design/leaks.md) are counted as judged.
-- Reads: allocations, process_moments, selection
-- Stored: yes
-- Columns:
--   trace, stack
--   alloc_samples: number of allocation samples
--   alloc_bytes, alloc_python_bytes, alloc_variance, live_at_peak_bytes, live_at_end_bytes
--   live_at_peak_variance, live_at_end_variance, alloc_interval_bytes, live_interval_bytes
--   survivors: number of judged samples, without arenas, that were alive when their process was judged
--   late_survivors: those of them that were allocated in the last third of the judged time
-- Order: none
WITH placed AS (
    SELECT a.*, peak_ns, judged_ns, judged_place(a.t_ns, start_ns, judged_ns) AS place
    FROM allocations a LEFT JOIN process_moments USING (trace, process), selection
    WHERE is_selected(selection, a.t_ns, process, thread) AND has_labels(a.trace, stack)
), judged AS (
    SELECT *, is_followed AND family <> 'arenas' AND is_evidence(place) AND coalesce(end_t_ns >= judged_ns, true)
        AS is_survivor
    FROM placed
)
SELECT trace, stack, count(*) AS alloc_samples, coalesce(sum(alloc_bytes), 0) AS alloc_bytes,
    coalesce(sum(alloc_bytes) FILTER (python), 0) AS alloc_python_bytes,
    coalesce(sum(alloc_variance), 0) AS alloc_variance,
    coalesce(sum(live_bytes) FILTER (t_ns <= peak_ns AND coalesce(end_t_ns > peak_ns, true)), 0) AS live_at_peak_bytes,
    coalesce(sum(live_bytes) FILTER (end_t_ns IS NULL), 0) AS live_at_end_bytes,
    coalesce(sum(live_variance) FILTER (t_ns <= peak_ns AND coalesce(end_t_ns > peak_ns, true)), 0)
        AS live_at_peak_variance,
    coalesce(sum(live_variance) FILTER (end_t_ns IS NULL), 0) AS live_at_end_variance,
    max(interval_bytes) AS alloc_interval_bytes, max(live_interval_bytes) AS live_interval_bytes,
    count(*) FILTER (is_survivor) AS survivors,
    count(*) FILTER (is_survivor AND place >= leak_rule('late_place')) AS late_survivors
FROM judged GROUP BY trace, stack
