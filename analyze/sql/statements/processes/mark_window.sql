-- Answers: which window and which processes does a user mark stand for?
-- A row for each time that it was set, up to three.
-- Parameters:
--   text: of the mark
-- Reads: marks, processes, settings
-- Columns:
--   times: number of times that it was set
--   from_s [s]: when it began
--   to_s [s]: when it ended; without an end, the end of the recording; NULL = unknown
--   processes: ids of the process that set it and of all that come from it; NULL = set from outside; empty = it is
--     not in the trace
-- Order: time
WITH RECURSIVE found AS (
    SELECT row_number() OVER (ORDER BY t_ns) AS number, count(*) OVER () AS times, t_ns, pid,
        coalesce(end_ns, (SELECT max(try_cast(value AS BIGINT)) FROM settings WHERE name = 'wall_ns')) AS end_ns
    FROM marks WHERE what = 'mark' AND text = $text QUALIFY number <= 3
), family AS (
    SELECT number, p.process, p.pid, p.t_ns, p.end_ns FROM found JOIN processes p USING (pid)
    WHERE coalesce(p.t_ns <= found.end_ns, true) AND coalesce(p.end_ns >= found.t_ns, true)
    UNION
    SELECT number, p.process, p.pid, p.t_ns, p.end_ns
    FROM family f JOIN processes p ON p.parent = f.process OR (p.parent IS NULL AND p.parent_pid = f.pid
        AND p.t_ns BETWEEN f.t_ns AND coalesce(f.end_ns, p.t_ns))
)
SELECT found.times, found.t_ns / 1e9 AS from_s, found.end_ns / 1e9 AS to_s,
    if(found.pid IS NULL, NULL, coalesce(processes, [])) AS processes
FROM found LEFT JOIN (
    SELECT number, list(process ORDER BY process) AS processes FROM family GROUP BY number
) USING (number)
ORDER BY found.number
