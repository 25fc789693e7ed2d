-- Answers: what was the resident set of the process tree over time?
-- The sum, over the processes, of the resident set each had last; shared pages count in every process that maps them.
-- Parameters: none (`selection` holds the processes; its time window is not applied: the window needs what was before)
-- Columns:
--   trace: which trace, from 1
--   t_ns [ns]: when, from the start of the recording
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
    FROM events, selection WHERE (process_ids IS NULL OR list_contains(process_ids, process))
)
SELECT trace, t_ns, (sum(sum(change)) OVER (PARTITION BY trace ORDER BY t_ns))::BIGINT AS rss_bytes
FROM changes GROUP BY trace, t_ns ORDER BY trace, t_ns
