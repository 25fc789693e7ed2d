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
WITH held AS (
    SELECT DISTINCT f.trace, stack, number
    FROM user_frames f JOIN user_locations l ON l.trace = f.trace AND l.id = f.location
), sums AS (
    SELECT trace, number, sum(python_s + native_s + system_s) AS cumulative_cpu_s
    FROM held JOIN stack_figures USING (trace, stack) GROUP BY trace, number
)
SELECT trace, file, function, first_line, cumulative_cpu_s
FROM sums JOIN (SELECT DISTINCT trace, number, file, function, first_line FROM user_locations) USING (trace, number)
