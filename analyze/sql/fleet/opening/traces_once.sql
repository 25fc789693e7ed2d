-- Answers: which traces have a summary, each of them once?
-- Notes: A trace that is in several batches, or was copied, counts in the first of them. Snapshots of a recording have the
--   trace id of the whole: the longest counts. A file that could not be read is
--   left out if it changed and was looked at again.
-- Reads: every_trace
-- Columns:
--   trace: number of the trace in this fleet; it may be another one when batches are added
--   batch: name of the file with its summary, without .parquet
--   trace_id: the trace's id, 32 hexadecimal digits; of a file that could not be read, a hash of its path, size and time
--   path: of the trace's file, relative to the fleet's folder
--   size_bytes [bytes]: size of that file when it was read
--   mtime_ns [ns]: time of its last change, since 1970
--   reason: why the file could not be read; NULL = it was read
--   host: name of the host; NULL = unknown
--   labels: the labels that the recorder was given, by name
--   start_ns [ns]: start of the recording, since 1970 (UTC); NULL = unknown
--   wall_ns [ns]: its duration; NULL = unknown
--   recorded_ns [ns]: how much of that was recorded; NULL = unknown, or all of it
--   python: version of the first interpreter; NULL = unknown
--   program: the command, words joined by blanks; NULL = unknown
--   processes: number of processes
--   losses: number of lost events, of all kinds
--   marks: how often each mark of the user was set, by its text
-- Order: none
WITH numbered AS (
    SELECT *, row_number() OVER (PARTITION BY trace_id ORDER BY wall_ns DESC NULLS LAST, trace) AS copy,
        row_number() OVER (PARTITION BY path ORDER BY mtime_ns DESC, reason IS NOT NULL, trace) AS attempt
    FROM every_trace
)
SELECT trace, batch, trace_id, path, size_bytes, mtime_ns, reason, host, labels, start_ns, wall_ns, recorded_ns, python, program,
    processes, losses, marks
FROM numbered WHERE copy = 1 AND (reason IS NULL OR attempt = 1)
