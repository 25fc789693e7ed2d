-- Answers: how much does the trace hold?
-- Parameters: none
-- Columns:
--   cpu: CPU ticks
--   wait: waits, or pieces of long ones
--   task: suspensions of asyncio tasks, or pieces of long ones
--   memory: footprint samples
--   alloc: allocation samples
--   copy: copy samples
--   device_copy: copies that CUDA libraries were asked for (rows: some stand for several)
--   device_sync: waits for a device, in the same way
--   device_alloc: blocks of device memory
--   rss: readings of the resident set
--   gpu: GPU ticks
--   processes: processes, or rather images (exec starts a new one)
--   threads: threads
--   peak_rss_bytes [bytes]: largest high-water mark of a single process; NULL = no process told it
-- Order: one row
-- (Each view is counted by itself: ten scalar subqueries are planned as joins and take three times as long.)
SELECT max(COLUMNS(*)) AS '\0' FROM (
    SELECT count(*) AS cpu FROM cpu_rows
    UNION ALL BY NAME SELECT count(*) AS wait FROM waits
    UNION ALL BY NAME SELECT count(*) AS task FROM task_waits
    UNION ALL BY NAME SELECT count(*) AS memory FROM memory_samples
    UNION ALL BY NAME SELECT count(*) AS alloc FROM alloc_rows
    UNION ALL BY NAME SELECT count(*) AS copy FROM copies
    UNION ALL BY NAME SELECT count(*) AS device_copy FROM device_copies
    UNION ALL BY NAME SELECT count(*) AS device_sync FROM device_syncs
    UNION ALL BY NAME SELECT count(*) AS device_alloc FROM device_allocations
    UNION ALL BY NAME SELECT count(*) AS rss FROM rss_samples
    UNION ALL BY NAME SELECT count(*) AS gpu FROM gpu_ticks
    UNION ALL BY NAME SELECT count(*) AS processes FROM processes
    UNION ALL BY NAME SELECT count(*) AS threads FROM threads
    UNION ALL BY NAME SELECT max(peak_rss_bytes) AS peak_rss_bytes FROM processes
)
