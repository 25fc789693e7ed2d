-- Answers: where in native code were the ticks of the selection that are charged to their own stack (as native_places)?
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
SELECT trace, location, module, address, sum(ticks)::BIGINT AS ticks,
    sum(round(user_ns * coalesce(scale, 1) * 68.719476736)) / 68719476736 AS native_s, -- as in cpu_ticks
    0.0::DOUBLE AS parallel_native_s
FROM native_ticks LEFT JOIN (SELECT trace, thread, scale FROM thread_scale) USING (trace, thread)
ANTI JOIN library_threads USING (trace, thread)
GROUP BY trace, location, module, address
