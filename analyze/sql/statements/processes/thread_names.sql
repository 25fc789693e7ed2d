-- Answers: what are the threads called?
-- Reads: threads
-- Columns:
--   thread
--   name: what Python calls the thread, else the kernel's name of it
-- Order: thread
SELECT thread, coalesce(python_name, name) AS name FROM threads
WHERE coalesce(python_name, name) IS NOT NULL ORDER BY thread
