-- Answers: which threads did libraries start for themselves (BLAS, OpenMP, Arrow)?
-- Threads with CPU ticks that never had a Python thread state, except the main thread of a process.
-- Reads: processes, thread_ticks, threads
-- Stored: yes
-- Columns:
--   trace, process, thread
-- Order: none
SELECT trace, process, thread
FROM thread_ticks
LEFT JOIN (SELECT trace, thread, tid FROM threads) USING (trace, thread)
LEFT JOIN (SELECT trace, process, pid FROM processes) USING (trace, process)
WHERE NOT has_python AND tid IS DISTINCT FROM pid
