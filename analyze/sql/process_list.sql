-- Answers: which processes does the trace hold?
-- Parameters: none
-- Columns:
--   trace: which trace, from 1
--   process: process id of the trace, as --process takes it
--   pid: the system's process id
--   parent: process id of the forking process, or of the image before exec; NULL = not recorded
--   cause: root, fork, exec or spawn
--   command: command line; NULL = left out with --no-argv
--   executable: path of the executable
--   python: version of the interpreter; NULL = no Python in this image
--   start_s [s]: when it started, from the start of the recording
--   end_s [s]: when it ended; NULL = it did not say
--   end: exit, quick_exit or exec; NULL = it did not say
--   exit_status: exit status, 128 + n for signal n; NULL = not known
--   threads: threads
--   ticks: CPU ticks
--   cpu_s [s]: exact CPU time of its threads
--   peak_rss_bytes [bytes]: high-water mark of its resident set; NULL = it did not say
-- Order: start, then process
WITH tick_counts AS (SELECT trace, process, count(*) AS ticks FROM cpu_rows GROUP BY ALL),
thread_counts AS (SELECT trace, process, count(*) AS threads, sum(cpu_ns) / 1e9 AS cpu_s FROM threads GROUP BY ALL)
SELECT trace, process, pid, parent, cause, command, executable, python_version AS python, t_ns / 1e9 AS start_s,
    end_ns / 1e9 AS end_s, p."end", exit_status, coalesce(threads, 0) AS threads, coalesce(ticks, 0) AS ticks,
    coalesce(cpu_s, 0) AS cpu_s, peak_rss_bytes
FROM processes p LEFT JOIN tick_counts USING (trace, process) LEFT JOIN thread_counts USING (trace, process)
ORDER BY trace, start_s, process
