-- Answers: how much CPU time is charged to the stacks that contain each function of the user's code?
-- Each stack counts once, even if the function recurses.
-- Reads: allocation_figures, copies, memory_samples, selected_task_waits, selected_waits, selection, stack_cpu,
--     user_frames, user_locations
-- Stored: no
-- Columns:
--   trace, file, function, first_line
--   cumulative_cpu_s [s]: CPU time of these stacks; NULL = none of them has a tick
-- Order: none
WITH held AS (SELECT DISTINCT trace, stack, number FROM user_frames), costs AS (
    SELECT * FROM stack_cpu
    UNION ALL BY NAME SELECT DISTINCT trace, stack FROM selected_waits
    UNION ALL BY NAME SELECT DISTINCT trace, stack FROM selected_task_waits
    UNION ALL BY NAME SELECT trace, stack FROM allocation_figures
    UNION ALL BY NAME SELECT DISTINCT trace, stack FROM memory_samples, selection
    WHERE is_selected(selection, t_ns, process, thread)
    UNION ALL BY NAME SELECT DISTINCT trace, stack FROM copies, selection
    WHERE is_selected(selection, t_ns, process, thread)
), sums AS (
    SELECT trace, number, sum(cpu_s) AS cumulative_cpu_s FROM held JOIN costs USING (trace, stack)
    GROUP BY trace, number
)
SELECT trace, file, function, first_line, cumulative_cpu_s
FROM sums JOIN (SELECT DISTINCT trace, number, file, function, first_line FROM user_locations) USING (trace, number)
