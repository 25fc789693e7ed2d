-- Answers: what was the resident set of each process when that of the process tree was highest, and at the end?
-- Reads: alloc_rows, processes, rss_events, rss_samples, selection
-- Stored: no
-- Columns:
--   trace
--   moment: peak (of the resident set of the process tree) or end (the last reading before the last interpreter began
--      to finalize, or else the last one)
--   t_ns [ns]: of that moment
--   process: one that was alive then
--   process_end_ns
--   read_ns [ns]: when its resident set was read
--   rss_bytes [bytes]: its resident set
--   shared_bytes
-- Order: none
WITH finals AS (
    SELECT trace, process, min(t_ns + lifetime_ns) AS final_ns FROM alloc_rows WHERE at_exit GROUP BY trace, process
), stops AS (
    SELECT trace, if(count(coalesce(final_ns, end_ns)) = count(*), max(coalesce(final_ns, end_ns)), NULL) AS stop_ns
    FROM processes LEFT JOIN finals USING (trace, process), selection
    WHERE is_selected(selection, process) GROUP BY trace
), readings AS (
    SELECT trace, t_ns, rss_bytes, coalesce(t_ns > stop_ns, false) AS is_late
    FROM rss_events LEFT JOIN stops USING (trace), selection
    WHERE is_in_window(selection, t_ns) AND rss_bytes > 0
), moments AS (
    SELECT trace, 'peak' AS moment, arg_min(t_ns, {'low': -rss_bytes, 't': t_ns}) AS t_ns FROM readings GROUP BY trace
    UNION ALL
    SELECT trace, 'end', coalesce(max(t_ns) FILTER (NOT is_late), max(t_ns)) FROM readings GROUP BY trace
), alive AS (
    SELECT trace, moment, m.t_ns, p.process, end_ns AS process_end_ns FROM moments m JOIN (
        SELECT *, max(end_ns) OVER (PARTITION BY trace) AS last_ns FROM processes
    ) p USING (trace), selection
    WHERE p.t_ns <= m.t_ns AND coalesce(end_ns > m.t_ns OR end_ns = last_ns, true)
        AND is_selected(selection, p.process)
)
SELECT a.trace, a.moment, a.t_ns, a.process, process_end_ns, r.t_ns AS read_ns, rss_bytes, shared_bytes
FROM alive a ASOF JOIN (FROM rss_samples WHERE rss_bytes IS NOT NULL) r
    ON r.trace = a.trace AND r.process = a.process AND r.t_ns <= a.t_ns
