-- Answers: which threads does the selection hold, and what did each spend its time on?
-- Reads: cpu_ticks, selected_waits, selection, stack_owners, thread_stacks, threads, waiting_places
-- Columns:
--   trace, process, thread
--   tid: the system's thread id; NULL = not recorded
--   name: the kernel's name of the thread; NULL = it did not end while recorded
--   start_s [s]: when it began, from the start of the recording
--   end_s [s]: when it ended; NULL = it did not end while recorded
--   python_s, native_s, unclassified_s, system_s, sleep_s, disk_s, runnable_s, gil_s
--   started_file: file of the line of the user's that has started it; NULL = none, or not known
--   started_line: that line
--   waits_in: the library in which it slept for more than half of that time; NULL = none, Python itself, or unknown
--   waits_in_guess: not for more than half of it without the stacks that were searched (waiting_places)
--   python_name: the last name that Python's threading module had for it; NULL = it had none, or is a main thread
-- Order: process, start, thread
WITH chosen AS (
    SELECT threads.* FROM threads, selection
    WHERE is_selected(selection, process) AND is_of_threads(selection, thread)
        AND is_in_window(selection, t_ns, end_ns)
), ticks AS (
    SELECT trace, thread, sum(user_s) FILTER (class = 'python') AS python_s,
        sum(user_s) FILTER (class IN ('builtin', 'extension')) AS native_s,
        sum(user_s) FILTER (class = 'unclassified') AS unclassified_s, sum(system_s) AS system_s
    FROM cpu_ticks, selection WHERE is_in_window(selection, t_ns) AND has_labels(trace, stack)
    GROUP BY trace, thread
), waiting AS (
    SELECT trace, thread, sum(wait_s) FILTER (class = 'sleep') AS sleep_s,
        sum(wait_s) FILTER (class = 'disk') AS disk_s, sum(wait_s) FILTER (class = 'runnable') AS runnable_s,
        sum(wait_s) FILTER (class = 'gil') AS gil_s
    FROM selected_waits GROUP BY trace, thread
), sleeping AS (
    SELECT w.trace, thread, library, sum(wait_s) AS library_s, sum(if(is_guess, 0, wait_s)) AS sure_s
    FROM selected_waits w LEFT JOIN waiting_places p ON p.trace = w.trace AND p.native = w.native
    WHERE class IN ('sleep', 'disk') GROUP BY w.trace, thread, library
), waiting_in AS (
    SELECT trace, thread, if(2 * max(library_s) FILTER (library IS NOT NULL) > sum(library_s),
        arg_max(library, (library_s, library)) FILTER (library IS NOT NULL), NULL) AS waits_in,
        waits_in IS NOT NULL
            AND 2 * arg_max(sure_s, (library_s, library)) FILTER (library IS NOT NULL) <= sum(library_s)
            AS waits_in_guess
    FROM sleeping GROUP BY trace, thread
)
SELECT trace, process, thread, tid, name, t_ns / 1e9 AS start_s, end_ns / 1e9 AS end_s,
    coalesce(python_s, 0) AS python_s, coalesce(native_s, 0) AS native_s,
    coalesce(unclassified_s, 0) AS unclassified_s, coalesce(system_s, 0) AS system_s,
    coalesce(sleep_s, 0) AS sleep_s, coalesce(disk_s, 0) AS disk_s, coalesce(runnable_s, 0) AS runnable_s,
    coalesce(gil_s, 0) AS gil_s, started_file, started_line, waits_in,
    coalesce(waits_in_guess, false) AS waits_in_guess, python_name
FROM chosen LEFT JOIN ticks USING (trace, thread) LEFT JOIN waiting USING (trace, thread)
LEFT JOIN waiting_in USING (trace, thread)
LEFT JOIN (
    SELECT trace, thread, file AS started_file, line AS started_line
    FROM thread_stacks JOIN stack_owners USING (trace, stack)
) USING (trace, thread)
ORDER BY trace, process, start_s, thread
