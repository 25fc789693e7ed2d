-- Answers: which waits does the selection hold, one by one?
-- Reads: selected_waits
-- Columns:
--   t_ns, end_ns, process, thread, stack
--   class: sleep, disk, runnable or gil
--   wait_s [s]: how long the thread waited: less than from t_ns to end_ns where it ran for moments in between
-- Order: time, then end, thread, stack
SELECT t_ns, end_ns, process, thread, stack, class, wait_s FROM selected_waits
ORDER BY t_ns, end_ns, thread, stack, class
