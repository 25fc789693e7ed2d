-- Answers: how much of each wait lies in the selection?
-- A wait that a time window cuts counts with the part of its span that lies inside.
-- Parameters: none (the table `selection` holds time window, processes and threads)
-- Columns:
--   trace: which trace, from 1
--   process: process id
--   thread: thread id
--   stack: stack id; NULL = no Python stack was there or could be read
--   class: sleep, disk, runnable or gil
--   t_ns [ns]: when it began, not before the window, from the start of the recording
--   end_ns [ns]: when it ended, not after the window
--   wait_s [s]: how long the thread waited, inside the window
-- Order: none
WITH clipped AS (
    SELECT waits.*, greatest(t_ns, coalesce(from_ns, t_ns)) AS first_ns,
        least(t_ns + span_ns, coalesce(to_ns, t_ns + span_ns)) AS last_ns
    FROM waits, selection
    WHERE coalesce(t_ns + span_ns >= from_ns, true) AND coalesce(t_ns < to_ns, true)
        AND (process_ids IS NULL OR list_contains(process_ids, process))
        AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
)
SELECT trace, process, thread, stack, class, first_ns AS t_ns, greatest(first_ns, last_ns) AS end_ns,
    round(duration_ns * if(span_ns > 0, greatest(last_ns - first_ns, 0) / span_ns, 1) * 68.719476736)
        / 68719476736 AS wait_s -- as in cpu_ticks
FROM clipped
