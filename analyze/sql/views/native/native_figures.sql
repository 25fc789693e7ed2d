-- Answers: which libraries and functions does the native time of each line go to?
-- Reads: native_places, symbols
-- Stored: no
-- Columns:
--   trace, location, module, symbol, ticks, native_s, parallel_native_s
-- Order: none
SELECT p.trace, location, p.module, if(address < end_offset, coalesce(demangled, name), NULL) AS symbol,
    sum(ticks)::BIGINT AS ticks,
    sum(native_s) AS native_s, sum(parallel_native_s) AS parallel_native_s
FROM native_places p ASOF LEFT JOIN symbols s
    ON p.trace = s.trace AND p.module = s.module AND p.address >= s.start_offset
GROUP BY ALL
