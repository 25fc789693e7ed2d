-- Answers: which processes does the trace hold?
-- Reads: cpu_ticks, heap_samples, memory_samples, process_parents, processes, rss_samples, threads
-- Columns:
--   trace
--   process: process id of the trace, as --process takes it
--   pid: the system's process id
--   parent: as in process_parents
--   cause: root, fork, exec or spawn
--   command: command line; NULL = left out with --no-argv
--   executable: path of the executable
--   python: version of the interpreter; NULL = no Python in this image
--   start_s [s]: when it started, from the start of the recording
--   end_s [s]: when it ended; NULL = it left no end record
--   end: exit, quick_exit, exec or filter (see trace-format.md); NULL = it left no end record
--   exit_status: exit status, 128 + n for signal n; NULL = unknown
--   threads: number of threads
--   ticks
--   cpu_s [s]: exact CPU time of its threads
--   python_s, native_s, unclassified_s, system_s, growth_bytes
--   peak_bytes [bytes]: highest footprint that it reported, with the memory that it inherited by fork
--   peak_rss_bytes [bytes]: high-water mark of its resident set; NULL = unknown
--   last_rss_bytes [bytes]: its resident set when it was last observed; NULL = it never was
-- Order: start, then process
WITH split AS (
    SELECT trace, process, count(*) AS ticks, sum(system_s) AS system_s,
        sum(user_s) FILTER (class = 'python') AS python_s,
        sum(user_s) FILTER (class IN ('builtin', 'extension')) AS native_s,
        sum(user_s) FILTER (class = 'unclassified') AS unclassified_s
    FROM cpu_ticks GROUP BY ALL
), thread_counts AS (
    SELECT trace, process, count(*) AS threads, sum(cpu_ns) / 1e9 AS cpu_s FROM threads GROUP BY ALL
), told AS (
    SELECT trace, process, net_bytes, footprint_bytes FROM memory_samples
    UNION ALL
    SELECT trace, process, 0, footprint_bytes FROM heap_samples
    UNION ALL
    SELECT trace, process, 0, greatest(start_footprint_bytes, end_footprint_bytes) FROM processes
), footprints AS (
    SELECT trace, process, sum(net_bytes)::BIGINT AS growth_bytes, max(footprint_bytes) AS peak_bytes
    FROM told GROUP BY ALL
), resident AS (
    SELECT trace, process, arg_max(rss_bytes, t_ns) AS last_rss_bytes FROM rss_samples GROUP BY ALL
)
SELECT trace, process, pid, process_parents.parent, cause, command, executable,
    python_version AS python, t_ns / 1e9 AS start_s,
    end_ns / 1e9 AS end_s, p."end", exit_status, coalesce(threads, 0) AS threads, coalesce(ticks, 0) AS ticks,
    coalesce(cpu_s, 0) AS cpu_s, coalesce(python_s, 0) AS python_s, coalesce(native_s, 0) AS native_s,
    coalesce(unclassified_s, 0) AS unclassified_s, coalesce(system_s, 0) AS system_s,
    growth_bytes, peak_bytes, peak_rss_bytes, last_rss_bytes
FROM processes p LEFT JOIN split USING (trace, process) LEFT JOIN thread_counts USING (trace, process)
LEFT JOIN footprints USING (trace, process) LEFT JOIN resident USING (trace, process)
JOIN process_parents USING (trace, process)
ORDER BY trace, start_s, process
