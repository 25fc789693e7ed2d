-- Answers: to which packages do the CPU time and the waiting time go that are charged to no line of the user's code?
-- They go to the package of the innermost Python frame.
-- Reads: locations, selected_waits, stack_cpu, stack_owners, stacks
-- Columns:
--   package: NULL = there was no Python stack
--   is_standard: a module of the standard library; NULL = there was no Python stack
--   cpu_s [s]: CPU time that is charged to those stacks
--   wait_s [s]: how long threads waited there, summed over all threads
-- Order: cpu_s, descending; then by package
WITH innermost AS (
    SELECT s.trace, stack, file FROM stacks s JOIN locations l ON l.trace = s.trace AND l.id = s.locations[1]
), spent AS (
    SELECT trace, stack, cpu_s, 0 AS wait_s FROM stack_cpu
    UNION ALL
    SELECT trace, stack, 0, sum(wait_s) FROM selected_waits GROUP BY trace, stack
)
SELECT package_of(file) AS package, is_of_standard_library(file) AS is_standard, sum(cpu_s) AS cpu_s,
    sum(wait_s) AS wait_s
FROM spent ANTI JOIN stack_owners USING (trace, stack) LEFT JOIN innermost USING (trace, stack)
GROUP BY ALL
ORDER BY cpu_s DESC NULLS LAST, package
