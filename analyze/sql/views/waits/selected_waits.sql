-- Answers: how much of each wait lies in the selection?
-- A wait that a time window cuts counts with the part of its span that lies inside.
-- Reads: selection, waits
-- Stored: no
-- Columns:
--   trace, process, thread, stack
--   class: sleep, disk, runnable or gil
--   t_ns [ns]: when it began, not before the start of the window
--   end_ns [ns]: when it ended, not after the end of the window
--   wait_s [s]: how long the thread waited, inside the window
--   syscall: number of the system call; NULL = in none
--   native: id of the native stack (waiting_places); NULL = unknown
-- Order: none
WITH clipped AS (
    SELECT waits.*, greatest(t_ns, from_ns) AS first_ns,
        least(t_ns + span_ns, to_ns) AS last_ns
    FROM waits, selection
    WHERE is_selected(selection, t_ns, t_ns + span_ns, process, thread) AND has_labels(trace, stack)
)
SELECT trace, process, thread, stack, class, first_ns AS t_ns, greatest(first_ns, last_ns) AS end_ns,
    exact_s(duration_ns * if(span_ns > 0, greatest(last_ns - first_ns, 0) / span_ns, 1)) AS wait_s,
    syscall, native
FROM clipped
