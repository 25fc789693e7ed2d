-- Answers: how much CPU time have the stacks that hold each function of the user's code?
-- Each stack counts once, even when the function recurses.
-- Parameters: none (`selection` and `user_files` hold what was asked for)
-- Columns:
--   trace: which trace, from 1
--   file: file name
--   function: qualified name
--   first_line: first line of the function
--   cumulative_cpu_s [s]: CPU time; NULL = none of the stacks has a tick
-- Order: none
WITH held AS (SELECT DISTINCT trace, stack, number FROM user_frames), costs AS (
    SELECT * FROM stack_cpu
    UNION ALL BY NAME SELECT DISTINCT trace, stack FROM selected_waits
    UNION ALL BY NAME SELECT DISTINCT trace, stack FROM selected_task_waits
    UNION ALL BY NAME SELECT trace, stack FROM allocation_figures
    UNION ALL BY NAME SELECT DISTINCT trace, stack FROM memory_samples, selection
    WHERE (from_ns IS NULL OR t_ns >= from_ns) AND (to_ns IS NULL OR t_ns < to_ns)
        AND (process_ids IS NULL OR list_contains(process_ids, process))
        AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
    UNION ALL BY NAME SELECT DISTINCT trace, stack FROM copies, selection
    WHERE (from_ns IS NULL OR t_ns >= from_ns) AND (to_ns IS NULL OR t_ns < to_ns)
        AND (process_ids IS NULL OR list_contains(process_ids, process))
        AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
), sums AS (
    SELECT trace, number, sum(cpu_s) AS cumulative_cpu_s FROM held JOIN costs USING (trace, stack)
    GROUP BY trace, number
)
SELECT trace, file, function, first_line, cumulative_cpu_s
FROM sums JOIN (SELECT DISTINCT trace, number, file, function, first_line FROM user_locations) USING (trace, number)
