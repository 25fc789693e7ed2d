-- Answers: what do each thread's CPU ticks of the selection in native code add up to, by line and place, as recorded?
-- Also those of which it is unknown whether they are.
-- Reads: classified_ticks, named_modules, selection, stack_owners, started_stacks
-- Stored: yes
-- Columns:
--   trace, thread, location
--   is_native: they are in native code; otherwise that is unknown
--   module
--   address [bytes]: ELF virtual address in the module, as in cpu_ticks; NULL = the trace has no symbols of the module
--   ticks, user_ns
-- Order: none
SELECT trace, thread, location, if(is_asked, is_native, NULL) AS is_native, if(is_asked, module, NULL) AS module,
    if(is_asked AND is_named, address, NULL) AS address, count(*) AS ticks,
    coalesce(sum(user_ns), 0)::DOUBLE AS user_ns
FROM (SELECT * REPLACE (coalesce(started_on, stack) AS stack), stack AS own_stack,
        is_native OR is_unclassified AS is_asked
    FROM classified_ticks LEFT JOIN started_stacks USING (trace, thread, stack) WHERE is_open)
LEFT JOIN (SELECT trace, stack, location FROM stack_owners) USING (trace, stack)
LEFT JOIN named_modules USING (trace, module), selection
WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, own_stack)
GROUP BY ALL -- a condition in WHERE would compute the class of each tick twice
HAVING bool_or(is_asked)
