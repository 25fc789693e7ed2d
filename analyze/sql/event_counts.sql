-- Answers: how much does the trace hold?
-- Parameters: none
-- Columns:
--   cpu: CPU ticks
--   wait: waits, or pieces of long ones
--   task: suspensions of asyncio tasks, or pieces of long ones
--   memory: footprint samples
--   alloc: allocation samples
--   copy: copy samples
--   rss: readings of the resident set
--   processes: processes, or rather images (exec starts a new one)
--   threads: threads
--   peak_rss_bytes [bytes]: largest high-water mark of a single process; NULL = no process told it
-- Order: one row
SELECT (SELECT count(*) FROM cpu_rows) AS cpu, (SELECT count(*) FROM waits) AS wait,
    (SELECT count(*) FROM task_waits) AS task, (SELECT count(*) FROM memory_samples) AS memory,
    (SELECT count(*) FROM alloc_rows) AS alloc, (SELECT count(*) FROM copies) AS copy,
    (SELECT count(*) FROM rss_samples) AS rss, (SELECT count(*) FROM processes) AS processes,
    (SELECT count(*) FROM threads) AS threads, (SELECT max(peak_rss_bytes) FROM processes) AS peak_rss_bytes
