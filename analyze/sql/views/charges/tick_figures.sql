-- Answers: what do the CPU ticks of the selection add up to, by the line that they are charged to?
-- Reads: helper_figures, own_figures
-- Stored: no
-- If library_threads is empty: own_figures
-- Columns:
--   trace, location, ticks, python_s, native_s, parallel_native_s, unclassified_s, system_s, gc_s, cpu_variance
-- Order: none
WITH parts AS (SELECT * FROM own_figures UNION ALL BY NAME SELECT * FROM helper_figures)
SELECT trace, location, sum(ticks)::BIGINT AS ticks, sum(python_s) AS python_s, sum(native_s) AS native_s,
    sum(parallel_native_s) AS parallel_native_s, sum(unclassified_s) AS unclassified_s, sum(system_s) AS system_s,
    sum(gc_s) AS gc_s,
    sum(cpu_variance) AS cpu_variance
FROM parts GROUP BY trace, location
