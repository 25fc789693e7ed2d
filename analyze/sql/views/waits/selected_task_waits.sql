-- Answers: how much of each suspension of an asyncio task lies in the selection?
-- A suspension that a time window cuts counts with the part of it that lies inside.
-- Parameters: none (the table `selection` holds time window, processes and threads)
-- Columns:
--   trace: which trace, from 1
--   process: process id
--   thread: id of the thread that runs the task's event loop
--   stack: stack id: from what is awaited out to the task's coroutine; NULL = it could not be read
--   task: id of the task in its trace
--   name: its name; NULL = it could not be read
--   tasks: for how many tasks it stands: 1, but where there were too many to look at all
--   suspended_s [s]: how long it was suspended, inside the window, times those tasks
-- Order: none
WITH clipped AS (
    SELECT task_waits.*, greatest(t_ns, coalesce(from_ns, t_ns)) AS first_ns,
        least(t_ns + span_ns, coalesce(to_ns, t_ns + span_ns)) AS last_ns
    FROM task_waits, selection
    WHERE coalesce(t_ns + span_ns >= from_ns, true) AND coalesce(t_ns < to_ns, true)
        AND (process_ids IS NULL OR list_contains(process_ids, process))
        AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
)
SELECT trace, process, thread, stack, task, name, if(span_ns > 0, duration_ns / span_ns, 1) AS tasks,
    round(duration_ns * if(span_ns > 0, greatest(last_ns - first_ns, 0) / span_ns, 1) * 68.719476736)
        / 68719476736 AS suspended_s -- as in cpu_ticks
FROM clipped
