-- Answers: which window does a user mark stand for, and which processes had the pid that set it then?
-- A row for each time that it was set, up to three.
-- Parameters:
--   text: of the mark
-- Reads: marks, processes, settings
-- Columns:
--   times: number of times that it was set
--   from_s [s]: when it began
--   to_s [s]: when it ended; without an end, the end of the recording; NULL = unknown
--   processes: ids of the processes that had the pid that set it (several: one has called exec), empty = none is in the
--     trace; NULL = set from outside
-- Order: time
WITH found AS (
    SELECT row_number() OVER (ORDER BY t_ns) AS number, count(*) OVER () AS times, t_ns, pid,
        coalesce(end_ns, (SELECT max(try_cast(value AS BIGINT)) FROM settings WHERE name = 'wall_ns')) AS end_ns
    FROM marks WHERE what = 'mark' AND text = $text QUALIFY number <= 3
)
SELECT any_value(times) AS times, found.t_ns / 1e9 AS from_s, found.end_ns / 1e9 AS to_s,
    if(found.pid IS NULL, NULL, coalesce(list(process ORDER BY process) FILTER (process IS NOT NULL), [])) AS processes
FROM found LEFT JOIN processes p
    ON p.pid = found.pid AND coalesce(p.t_ns <= found.end_ns, true) AND coalesce(p.end_ns >= found.t_ns, true)
GROUP BY number, found.t_ns, found.end_ns, found.pid ORDER BY number
