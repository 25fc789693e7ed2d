-- Answers: how much of each suspension of an asyncio task or greenlet lies in the selection?
-- A suspension that a time window cuts counts with the part of it that lies inside.
-- Reads: selection, task_waits
-- Stored: no
-- Columns:
--   trace, process
--   thread: id of the thread that runs the task's event loop, or the greenlet
--   stack: stack id: from what is awaited out to the task's coroutine; NULL = it could not be read
--   task: id of the task in its trace
--   name: its name; NULL = it could not be read
--   tasks: number of tasks that it stands for: 1, unless there were too many tasks to observe all of them
--   suspended_s [s]: how long it was suspended, inside the window, times that number
-- Order: none
WITH clipped AS (
    SELECT task_waits.*, greatest(t_ns, from_ns) AS first_ns,
        least(t_ns + span_ns, to_ns) AS last_ns
    FROM task_waits, selection
    WHERE is_selected(selection, t_ns, t_ns + span_ns, process, thread) AND has_labels(trace, stack)
)
SELECT trace, process, thread, stack, task, name, if(span_ns > 0, duration_ns / span_ns, 1) AS tasks,
    exact_s(duration_ns * if(span_ns > 0, greatest(last_ns - first_ns, 0) / span_ns, 1)) AS suspended_s
FROM clipped
