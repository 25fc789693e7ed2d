-- Answers: which part of the compared traces of each side ran while the other side was recorded?
-- Notes: From the start of the first trace of the other side to the end of its last. Traces of unknown time are left out.
-- Reads: compared_traces, fleet_traces
-- Columns:
--   side: 0 = before, 1 = after
--   part: from 0 to 1
-- Order: side
WITH times AS (
    SELECT c.side, t.start_ns, t.start_ns + coalesce(t.wall_ns, 0) AS end_ns
    FROM compared_traces c JOIN fleet_traces t ON c.trace = t.trace WHERE t.start_ns IS NOT NULL
), spans AS (
    SELECT side, min(start_ns) AS first_ns, max(end_ns) AS last_ns FROM times GROUP BY side
)
SELECT t.side, avg(CASE WHEN t.start_ns < s.last_ns AND t.end_ns > s.first_ns THEN 1 ELSE 0 END) AS part
FROM times t JOIN spans s ON t.side <> s.side
GROUP BY t.side ORDER BY t.side
