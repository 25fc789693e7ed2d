-- Answers: which places in native code does the native time of each line go to?
-- Reads: helper_ticks, named_modules, own_places, selection, stack_owners
-- Stored: no
-- If library_threads is empty: own_places
-- Columns:
--   trace, location, module
--   address [bytes]: as in native_ticks
--   ticks, native_s, parallel_native_s
-- Order: none
SELECT * FROM own_places
UNION ALL BY NAME
SELECT trace, location, module, if(is_named, address, NULL) AS address, sum(ticks)::BIGINT AS ticks,
    sum(user_s) AS native_s, sum(if(is_parallel, user_s, 0)) AS parallel_native_s
FROM helper_ticks LEFT JOIN (SELECT trace, stack, location FROM stack_owners) USING (trace, stack)
LEFT JOIN named_modules USING (trace, module), selection
WHERE class IN ('builtin', 'extension') AND is_selected(selection, t_ns, process, thread)
    AND has_labels(trace, own_stack)
GROUP BY ALL
