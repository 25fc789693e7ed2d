-- Answers: which waits does the selection hold, one by one?
-- Reads: selected_waits
-- Columns:
--   t_ns
--   end_ns [ns]: as in selected_waits
--   process, thread, stack
--   class: as in selected_waits
--   wait_s [s]: how long the thread waited; less than end_ns - t_ns if it ran for moments in between
-- Order: time, then end, thread, stack
SELECT t_ns, end_ns, process, thread, stack, class, wait_s FROM selected_waits
ORDER BY t_ns, end_ns, thread, stack, class
