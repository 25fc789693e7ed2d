-- Answers: what do the CPU ticks of the selection add up to, by the line that they are charged to?
-- Parameters: none (`selection` and `user_files` hold what was asked for)
-- Columns:
--   trace: which trace, from 1
--   location: location id of the line, as in stack_owners; NULL = samples without any frame of the user's
--   ticks: CPU ticks
--   python_s [s]: user CPU time in Python code
--   native_s [s]: user CPU time in builtins and extensions
--   parallel_native_s [s]: the part of native_s that threads of libraries spent for it
--   system_s [s]: kernel CPU time
--   gc_s [s]: the part of the three that garbage collections took
-- Order: none
WITH parts AS (SELECT * FROM own_figures UNION ALL BY NAME SELECT * FROM helper_figures)
SELECT trace, location, sum(ticks)::BIGINT AS ticks, sum(python_s) AS python_s, sum(native_s) AS native_s,
    sum(parallel_native_s) AS parallel_native_s, sum(system_s) AS system_s, sum(gc_s) AS gc_s
FROM parts GROUP BY trace, location
