-- Answers: which libraries and functions does the native time of each line go to?
-- Parameters: none (`selection` and `user_files` hold what was asked for)
-- Columns:
--   trace: which trace, from 1
--   location: location id of the line, as in stack_owners; NULL = samples without any frame of the user's
--   module: module id; NULL = code in no known image (made while running)
--   symbol: function; NULL = the file does not say, or was not read
--   ticks: CPU ticks
--   native_s [s]: user CPU time
--   parallel_native_s [s]: the part of it that threads of libraries spent for it
-- Order: none
SELECT p.trace, location, p.module, if(address < end_offset, name, NULL) AS symbol, sum(ticks)::BIGINT AS ticks,
    sum(native_s) AS native_s, sum(parallel_native_s) AS parallel_native_s
FROM native_places p ASOF LEFT JOIN symbols s
    ON p.trace = s.trace AND p.module = s.module AND p.address >= s.start_offset
GROUP BY ALL
