-- Answers: what do each thread's CPU ticks of the selection in native code add up to, by line and place, as recorded?
-- Parameters: none (`selection` and `user_files` hold what was asked for)
-- Columns:
--   trace: which trace, from 1
--   thread: thread id
--   location: location id of the line, as in stack_owners; NULL = samples without any frame of the user's
--   module: module id of the native code; NULL = no known image
--   address [bytes]: ELF virtual address in that module, as in cpu_ticks; NULL = no symbols of it
--   ticks: how many
--   user_ns [ns]: sum of their user CPU times
-- Order: none
SELECT trace, thread, location, module, if(is_named, address, NULL) AS address, count(*) AS ticks,
    coalesce(sum(user_ns), 0)::DOUBLE AS user_ns
FROM classified_ticks LEFT JOIN (SELECT trace, stack, location FROM stack_owners) USING (trace, stack)
LEFT JOIN named_modules USING (trace, module), selection
WHERE is_native AND (from_ns IS NULL OR t_ns >= from_ns) AND (to_ns IS NULL OR t_ns < to_ns)
    AND (process_ids IS NULL OR list_contains(process_ids, process))
    AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
GROUP BY ALL
