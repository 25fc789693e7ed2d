-- Answers: which libraries and functions does the native time of each stack of the selection go to?
-- Parameters: none (the table `selection` holds time window, processes and threads)
-- Columns:
--   trace: which trace, from 1
--   stack: stack id; NULL = samples without a Python stack
--   module: module id; NULL = code in no known image (made while running)
--   symbol: function; NULL = the file does not say, or was not read
--   ticks: CPU ticks
--   native_s [s]: user CPU time
--   parallel_native_s [s]: the part of it that threads of libraries spent for the stack
-- Order: none
SELECT t.trace, stack, t.module, if(address < end_offset, name, NULL) AS symbol, sum(ticks)::BIGINT AS ticks,
    sum(user_s) AS native_s, coalesce(sum(user_s) FILTER (is_parallel), 0) AS parallel_native_s
FROM tick_figures t ASOF LEFT JOIN symbols s
    ON t.trace = s.trace AND t.module = s.module AND t.address >= s.start_offset
WHERE is_native
GROUP BY ALL
