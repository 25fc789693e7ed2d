-- Answers: by which factor are the ticks of each thread scaled, so that they add up to its exact CPU time?
-- A tick stands for about one interval, so the ticks of a thread add up to its CPU time only roughly. The exact figure
-- is known from the end of the thread. Threads with at least 20 ticks are scaled by themselves. Others are pooled over
-- their process, or over the trace if that pool has fewer than 5 ticks: most of a thousand threads of 3 ms have no
-- tick, and their time belongs to the few that have one. Ticks by polls also stand for the time of preempted threads,
-- so that no factor is too far from 1 for them. docs/design/attribution.md gives the reasons.
-- Reads: thread_ticks, threads
-- Stored: yes
-- Columns:
--   trace, process, thread
--   ticks: number of ticks of the thread that carry time
--   sampled_ns
--   exact_ns [ns]: exact CPU time of the thread
--   pool: thread, process or trace: over which the factor was computed; none = the factor is unknown, and scale is 1
--   scale: factor for the weights of the thread's ticks
-- Order: none
WITH sampled AS (
    SELECT trace, thread, sum(ticks)::BIGINT AS ticks, sum(sampled_ns) AS sampled_ns
    FROM thread_ticks GROUP BY trace, thread
), known AS (
    SELECT trace, process, thread, coalesce(ticks, 0) AS ticks, coalesce(sampled_ns, 0)::BIGINT AS sampled_ns,
        cpu_ns AS exact_ns, coalesce(ticks, 0) < 20 AS is_small, engine = 'polled' AS is_polled
    FROM threads LEFT JOIN sampled USING (trace, thread) WHERE cpu_ns > 0 AND engine IS DISTINCT FROM 'none'
), by_process AS (
    SELECT trace, process, sum(ticks) AS process_ticks, sum(exact_ns) / nullif(sum(sampled_ns), 0) AS process_ratio
    FROM known WHERE is_small GROUP BY trace, process
), by_trace AS (
    SELECT trace, sum(ticks) AS trace_ticks, sum(exact_ns) / nullif(sum(sampled_ns), 0) AS trace_ratio
    FROM known JOIN by_process USING (trace, process) WHERE is_small AND process_ticks < 5 GROUP BY trace
), pooled AS (
    SELECT known.*, CASE
        WHEN NOT is_small THEN 'thread'
        WHEN process_ticks >= 5 THEN 'process'
        WHEN trace_ticks >= 5 THEN 'trace'
        ELSE 'none' END AS wanted,
        CASE wanted WHEN 'thread' THEN exact_ns / nullif(sampled_ns, 0) WHEN 'process' THEN process_ratio
            WHEN 'trace' THEN trace_ratio END AS ratio,
        is_polled AND ratio > 0
            OR ratio BETWEEN if(is_small, 0.25, 0.5) AND if(is_small, 4, 2) AS is_sane
    FROM known LEFT JOIN by_process USING (trace, process) LEFT JOIN by_trace USING (trace)
)
SELECT trace, process, thread, ticks, sampled_ns, exact_ns, if(is_sane, wanted, 'none') AS pool,
    if(is_sane, ratio, 1.0)::DOUBLE AS scale
FROM pooled
