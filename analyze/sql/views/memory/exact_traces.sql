-- Answers: in which traces was every allocation recorded (--alloc-interval 1), so that sums over them are exact?
-- Not if the recording was paused, the interval was changed while it ran, or the trace begins where another one ends:
-- then some allocations are missing. The rows alone do not tell, since large blocks are recorded one by one at any
-- interval.
-- Reads: alloc_rows, marks, settings
-- Stored: yes
-- Columns:
--   trace
-- Order: none
SELECT trace FROM alloc_rows
ANTI JOIN (
    SELECT trace FROM marks WHERE what = 'pause' OR what = 'set' AND starts_with(text, 'alloc-interval')
    UNION ALL
    SELECT trace FROM settings WHERE name = 'alloc_interval' AND value <> '1' OR name = 'follows'
) USING (trace)
GROUP BY trace HAVING bool_and(coalesce(interval_bytes, 0) = 1)
