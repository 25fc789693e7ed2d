-- Answers: what did the lines that may leak allocate, free and keep, in each hundredth of their processes' time?
-- Allocations made while importing are left out, and arenas. Allocations and frees of a hundredth are in separate rows.
-- Reads: allocations, leak_candidates, process_moments, selection, stack_owners, steady_imports
-- Columns:
--   trace, file, line, function, first_line, family, allocator, type
--   size_class: whole part of the binary logarithm of the size
--   process
--   place: hundredth of the time from the process's start to when it is judged, from 0; 100 = later
--   mallocs: number of judged samples: those that are evidence (is_evidence)
--   frees: those of them that were freed before the process was judged
--   kept_bytes [bytes]: bytes of the judged samples that survived, estimated
--   kept_variance: square of the standard error of kept_bytes
--   kept_squares: sum of the squares of the bytes that each surviving sample stands for
--   made: number of judged allocations, estimated
--   change_bytes [bytes]: allocated minus freed, estimated
--   alive: number of allocations that were alive when judged, estimated
--   age_s [s]: sum of their ages at that moment
--   end_bytes [bytes]: alive at the end of the process, estimated
--   end_variance: square of the standard error of end_bytes
--   live_interval_bytes: of the samples that were alive when judged
-- Order: none
WITH sites AS (
    SELECT * FROM stack_owners SEMI JOIN leak_candidates USING (trace, file, line)
    ANTI JOIN steady_imports USING (trace, stack)
), lives AS (
    SELECT trace, file, line, function, first_line, family, allocator, a.type,
        floor(log2(greatest(size_bytes, 1)))::INTEGER AS size_class, process,
        least(floor(judged_place(a.t_ns, start_ns, judged_ns)), 100)::INTEGER AS place,
        if(end_t_ns < judged_ns, floor(judged_place(end_t_ns, start_ns, judged_ns)), NULL)::INTEGER AS end_place,
        is_followed AND is_evidence(place) AS is_judged, end_place IS NULL AND place < 100 AS is_kept,
        coalesce(live_bytes, 0) AS bytes, live_variance, live_interval_bytes, live_count,
        (judged_ns - a.t_ns) / 1e9 AS age_s,
        end_t_ns IS NULL AS is_at_end
    FROM allocations a JOIN sites USING (trace, stack) JOIN process_moments USING (trace, process), selection
    WHERE judged_ns IS NOT NULL AND a.t_ns >= start_ns AND family <> 'arenas'
        AND is_selected(selection, a.t_ns, process, thread) AND has_labels(trace, stack)
)
SELECT trace, file, line, function, first_line, family, allocator, "type", size_class, process, place,
    count(*) FILTER (is_judged) AS mallocs, count(*) FILTER (is_judged AND NOT is_kept) AS frees,
    coalesce(sum(bytes) FILTER (is_judged AND is_kept), 0) AS kept_bytes,
    coalesce(sum(live_variance) FILTER (is_judged AND is_kept), 0) AS kept_variance,
    coalesce(sum(bytes * bytes) FILTER (is_judged AND is_kept), 0) AS kept_squares,
    coalesce(sum(live_count) FILTER (is_judged), 0) AS made, sum(bytes) AS change_bytes,
    coalesce(sum(live_count) FILTER (is_kept), 0) AS alive,
    coalesce(sum(live_count * age_s) FILTER (is_kept), 0) AS age_s,
    coalesce(sum(bytes) FILTER (is_at_end), 0) AS end_bytes,
    coalesce(sum(live_variance) FILTER (is_at_end), 0) AS end_variance,
    coalesce(max(live_interval_bytes) FILTER (is_kept), 0) AS live_interval_bytes
FROM lives GROUP BY ALL
UNION ALL BY NAME
SELECT trace, file, line, function, first_line, family, allocator, "type", size_class, process, end_place AS place,
    0 AS mallocs, 0 AS frees, 0 AS kept_bytes, 0 AS kept_variance, 0 AS kept_squares, 0 AS made,
    -sum(bytes) AS change_bytes, 0 AS alive, 0 AS age_s, 0 AS end_bytes, 0 AS end_variance,
    0 AS live_interval_bytes
FROM lives WHERE end_place IS NOT NULL GROUP BY ALL
