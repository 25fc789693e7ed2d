-- Answers: which waits does the selection hold, one by one?
-- Parameters: none (the table `selection` holds time window, processes and threads)
-- Columns:
--   t_ns [ns]: when it began, not before the window, from the start of the recording
--   end_ns [ns]: when it ended, not after the window
--   process: process id
--   thread: thread id
--   stack: stack id; NULL = no Python stack was there or could be read
--   class: sleep, disk, runnable or gil
--   wait_s [s]: how long the thread waited: less than from t_ns to end_ns where it ran for moments in between
-- Order: time, then end, thread, stack
SELECT t_ns, end_ns, process, thread, stack, class, wait_s FROM selected_waits
ORDER BY t_ns, end_ns, thread, stack, class
