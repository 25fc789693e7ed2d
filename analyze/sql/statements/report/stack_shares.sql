-- Answers: which stacks took most of each trace's CPU time, and with which frames?
-- Notes: Stacks that differ in labels alone count as the first of them.
-- Parameters:
--   least: the share of the trace's CPU time below which a stack has no row
-- Reads: locations, sampled_values, stacks
-- Columns:
--   trace, stack, truncated
--   functions: names of the functions of its frames, outermost first
--   files: of these frames
--   numbers: of their lines; the first line of the function where the instruction has none
--   part, library, symbol, called_native, value
-- Order: trace, then the stack's CPU time, descending, then stack and the rest
WITH alike AS (
    SELECT trace, stack, min(stack) OVER (PARTITION BY trace, locations, truncated) AS first_stack
    FROM stacks SEMI JOIN (SELECT DISTINCT trace FROM stacks WHERE len(labels) > 0) USING (trace)
), sums AS (
    SELECT v.trace, coalesce(a.first_stack, v.stack) AS stack, part, library, symbol, called_native, sum(value) AS value
    FROM sampled_values v LEFT JOIN alike a ON a.trace = v.trace AND a.stack = v.stack
    WHERE metric = 'cpu' GROUP BY ALL
), whole AS (
    SELECT trace, stack, sum(value) AS stack_s, sum(sum(value)) OVER (PARTITION BY trace) AS trace_s
    FROM sums GROUP BY trace, stack
), large AS (
    SELECT trace, stack, stack_s FROM whole WHERE stack_s >= $least * trace_s
), frames AS (
    SELECT trace, stack, truncated, unnest(locations) AS id, generate_subscripts(locations, 1) AS depth
    FROM stacks SEMI JOIN large USING (trace, stack)
), named AS (
    SELECT trace, stack, any_value(truncated) AS truncated, list(function ORDER BY depth DESC) AS functions,
        list(file ORDER BY depth DESC) AS files,
        list(if(line > 0, line, first_line) ORDER BY depth DESC) AS numbers
    FROM frames JOIN locations USING (trace, id) GROUP BY trace, stack
)
SELECT s.trace, s.stack, coalesce(truncated, false) AS truncated, functions, files, numbers, part, library, symbol,
    called_native, value
FROM sums s JOIN large l ON l.trace = s.trace AND l.stack IS NOT DISTINCT FROM s.stack
LEFT JOIN named n ON n.trace = s.trace AND n.stack = s.stack
ORDER BY s.trace, stack_s DESC, s.stack, part, library, symbol, called_native
