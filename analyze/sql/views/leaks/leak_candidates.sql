-- Answers: which lines may leak? Only these are examined more closely (leak_cells; docs/design/leaks.md).
-- Lines with enough survivors (has_enough_survivors) of which some part passes the rule of succession
-- (is_probably_kept). A part is the line, its allocations by one allocator or of one type, or those size classes of
-- them of which most were kept (is_mostly_kept). Arenas of pymalloc are left out: the line that needs a new one
-- need not be one that keeps anything.
-- Reads: allocation_figures, allocations, process_moments, selection, stack_owners, steady_imports
-- Stored: yes
-- Columns:
--   trace, file, line
-- Order: none
WITH steady AS (
    SELECT trace, file, line
    FROM allocation_figures JOIN stack_owners USING (trace, stack) ANTI JOIN steady_imports USING (trace, stack)
    GROUP BY ALL HAVING has_enough_survivors(sum(survivors), sum(late_survivors))
), sites AS (
    SELECT trace, stack, dense_rank() OVER (ORDER BY trace, file, line) AS site, file, line
    FROM stack_owners SEMI JOIN steady USING (trace, file, line) ANTI JOIN steady_imports USING (trace, stack)
), parts AS (
    SELECT site, hash(family, allocator) AS giver, hash(a.type) AS kind,
        floor(log2(greatest(size_bytes, 1))) AS size_class, count(*) AS mallocs,
        count(*) FILTER (end_t_ns < judged_ns) AS frees
    FROM allocations a JOIN sites USING (trace, stack) JOIN process_moments USING (trace, process), selection
    WHERE is_followed AND family <> 'arenas' AND is_evidence(judged_place(a.t_ns, start_ns, judged_ns))
        AND is_selected(selection, a.t_ns, process, thread) AND has_labels(trace, stack)
    GROUP BY ALL
), nodes AS (
    SELECT site, sum(mallocs) AS mallocs, sum(frees) AS frees FROM parts
    GROUP BY GROUPING SETS ((site), (site, giver), (site, giver, kind))
    UNION ALL
    SELECT site, sum(mallocs), sum(frees) FROM parts WHERE is_mostly_kept(mallocs, frees) GROUP BY site, giver, kind
)
SELECT DISTINCT trace, file, line FROM nodes JOIN sites USING (site) WHERE is_probably_kept(mallocs, frees)
