-- Answers: which places in native code does the native time of each line go to?
-- Parameters: none (`selection` and `user_files` hold what was asked for)
-- Columns:
--   trace: which trace, from 1
--   location: location id of the line, as in stack_owners; NULL = samples without any frame of the user's
--   module: module id of the native code; NULL = no known image
--   address [bytes]: ELF virtual address in that module, as in cpu_ticks; NULL = no symbols of it
--   ticks: CPU ticks
--   native_s [s]: user CPU time
--   parallel_native_s [s]: the part of it that threads of libraries spent for the line
-- Order: none
SELECT * FROM own_places
UNION ALL BY NAME
SELECT trace, location, module, if(is_named, address, NULL) AS address, sum(ticks)::BIGINT AS ticks,
    sum(user_s) AS native_s, sum(if(is_parallel, user_s, 0)) AS parallel_native_s
FROM helper_ticks LEFT JOIN (SELECT trace, stack, location FROM stack_owners) USING (trace, stack)
LEFT JOIN named_modules USING (trace, module), selection
WHERE class <> 'python' AND (from_ns IS NULL OR t_ns >= from_ns) AND (to_ns IS NULL OR t_ns < to_ns)
    AND (process_ids IS NULL OR list_contains(process_ids, process))
    AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
GROUP BY ALL
