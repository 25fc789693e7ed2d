-- Answers: in which traces was every allocation recorded (--alloc-interval 1), so that sums over them are exact?
-- Parameters: none
-- Columns:
--   trace: which trace, from 1
-- Order: none
SELECT trace FROM alloc_rows GROUP BY trace HAVING bool_and(coalesce(interval_bytes, 0) = 1)
