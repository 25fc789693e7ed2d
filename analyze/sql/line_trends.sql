-- Answers: how did the memory charged to each line grow over time?
-- Parameters: none (`selection` and `user_files` hold what was asked for)
-- Columns:
--   trace: which trace, from 1
--   file: file name
--   line: line number
--   function: qualified name
--   first_line: first line of the function
--   t_ns [ns]: time of a footprint sample, from the start of the recording
--   net_bytes [bytes]: allocated minus freed up to that sample, since the one before
-- Order: trace, then time
SELECT trace, file, line, function, first_line, t_ns, net_bytes
FROM memory_samples JOIN stack_owners USING (trace, stack), selection
WHERE coalesce(t_ns >= from_ns, true) AND coalesce(t_ns < to_ns, true)
    AND (process_ids IS NULL OR list_contains(process_ids, process))
    AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
ORDER BY trace, t_ns
