-- Answers: where in native code were the ticks of the selection that are charged to their own stack (as native_places)?
-- Reads: library_threads, native_ticks, thread_scale
-- Stored: part
-- Columns:
--   trace, location, module
--   address [bytes]: ELF virtual address in that module, as in cpu_ticks; NULL = no symbols of it
--   ticks, native_s, parallel_native_s
-- Order: none
SELECT trace, location, module, address, sum(ticks)::BIGINT AS ticks,
    sum(exact_s(user_ns * coalesce(scale, 1))) AS native_s,
    0.0::DOUBLE AS parallel_native_s
FROM native_ticks LEFT JOIN (SELECT trace, thread, scale FROM thread_scale) USING (trace, thread)
ANTI JOIN library_threads USING (trace, thread)
GROUP BY trace, location, module, address
