-- Answers: what was the resident set of the process tree over time?
-- The sum, over the processes, of the last resident set of each. Shared pages count in every process that maps them.
-- The time window of the selection is not applied: figures inside the window depend on what was before it.
-- Reads: processes, rss_samples, selection
-- Stored: yes
-- Columns:
--   trace, t_ns
--   rss_bytes [bytes]: resident set, all processes
-- Order: trace, then time
WITH events AS (
    SELECT trace, process, t_ns, rss_bytes FROM rss_samples WHERE rss_bytes IS NOT NULL
    UNION ALL
    SELECT trace, process, end_ns, 0 FROM processes
    WHERE end_ns IS NOT NULL
    QUALIFY end_ns < max(end_ns) OVER (PARTITION BY trace)
), changes AS (
    SELECT trace, t_ns,
        rss_bytes - coalesce(lag(rss_bytes) OVER (PARTITION BY trace, process ORDER BY t_ns), 0) AS change
    FROM events, selection WHERE is_selected(selection, process)
)
SELECT trace, t_ns, (sum(sum(change)) OVER (PARTITION BY trace ORDER BY t_ns))::BIGINT AS rss_bytes
FROM changes GROUP BY trace, t_ns ORDER BY trace, t_ns
