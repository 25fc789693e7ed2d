-- Answers: which process does each one come from?
-- Reads: processes
-- Stored: no
-- Columns:
--   trace, process
--   parent: process id of the process that forked or spawned it (the image that had its parent's pid then), or of the
--     image before exec; NULL = not recorded
-- Order: none
WITH spawned AS (
    SELECT p.trace, p.process, q.process AS spawner
    FROM processes p ASOF JOIN processes q ON p.trace = q.trace AND p.parent_pid = q.pid AND p.t_ns >= q.t_ns
    WHERE p.parent IS NULL AND p.process <> q.process AND coalesce(q.end_ns >= p.t_ns, true)
)
SELECT trace, process, coalesce(parent, spawner) AS parent FROM processes LEFT JOIN spawned USING (trace, process)
