-- Answers: which places in native code do the ticks go to that are charged to their own stack?
-- The part of native_places without the threads of libraries.
-- Reads: library_threads, native_ticks, thread_scale
-- Stored: part
-- Columns:
--   trace, location, module
--   address [bytes]: as in native_places
--   ticks, native_s, parallel_native_s
-- Order: none
SELECT trace, location, module, address, sum(ticks)::BIGINT AS ticks,
    sum(exact_s(user_ns * coalesce(scale, 1))) AS native_s,
    0.0::DOUBLE AS parallel_native_s
FROM native_ticks LEFT JOIN (SELECT trace, thread, scale FROM thread_scale) USING (trace, thread)
ANTI JOIN library_threads USING (trace, thread)
WHERE is_native
GROUP BY trace, location, module, address
