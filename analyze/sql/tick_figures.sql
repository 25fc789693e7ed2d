-- Answers: what do the CPU ticks of the selection add up to, by stack and by place in native code?
-- Parameters: none (the table `selection` holds time window, processes and threads)
-- Columns:
--   trace: which trace, from 1
--   stack: stack id; NULL = ticks without a Python stack
--   is_native: they were in a builtin or an extension, not in Python code
--   is_parallel: another thread, one of a library, used the CPU for this stack
--   gc: a garbage collection was running
--   module: module id of the native code; NULL = Python code, or no known image
--   address [bytes]: ELF virtual address in that module, as in charged_ticks; NULL = Python code, or no symbols of it
--   ticks: CPU ticks
--   user_s [s]: user CPU time
--   system_s [s]: kernel CPU time
-- Order: none
SELECT trace, stack, class <> 'python' AS is_native, is_parallel, gc, if(is_native, module, NULL) AS module,
    if(is_native AND is_named, address, NULL) AS address, sum(ticks)::BIGINT AS ticks, sum(user_s) AS user_s,
    sum(system_s) AS system_s
FROM charged_ticks LEFT JOIN named_modules USING (trace, module), selection
WHERE coalesce(t_ns >= from_ns, true) AND coalesce(t_ns < to_ns, true)
    AND (process_ids IS NULL OR list_contains(process_ids, process))
    AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
GROUP BY ALL
