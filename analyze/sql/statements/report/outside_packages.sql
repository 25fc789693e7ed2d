-- Answers: to which packages does the CPU time go that is charged to no line of the user's code?
-- It goes to the package of the innermost Python frame.
-- Reads: locations, stack_cpu, stack_owners, stacks
-- Columns:
--   package: NULL = there was no Python stack
--   is_standard: a module of the standard library; NULL = there was no Python stack
--   cpu_s [s]: CPU time that is charged to those stacks
-- Order: cpu_s, descending; then by package
WITH innermost AS (
    SELECT s.trace, stack, file FROM stacks s JOIN locations l ON l.trace = s.trace AND l.id = s.locations[1]
)
SELECT package_of(file) AS package, is_of_standard_library(file) AS is_standard, sum(cpu_s) AS cpu_s
FROM stack_cpu ANTI JOIN stack_owners USING (trace, stack) LEFT JOIN innermost USING (trace, stack)
GROUP BY ALL
ORDER BY cpu_s DESC NULLS LAST, package
