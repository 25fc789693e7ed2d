-- Answers: what does a metric add up to, by process, thread, stack and what was running below it?
-- Parameters:
--   metric: cpu, wait, allocated, live-at-peak or copies
-- Columns:
--   process: process id
--   thread: thread id
--   stack: stack id; NULL = no Python stack was there or could be read
--   part: of cpu: python, native or system; of wait: sleep, disk, runnable or gil; NULL for the others
--   library: of native time: name of the library; NULL = code in no known image
--   symbol: of native time: function of the library; NULL = not known
--   value [s or bytes]: CPU time, waiting time, or estimated bytes
-- Order: process, thread, stack, part, library, symbol
SELECT process, thread, stack, part, library, symbol, sum(value) AS value
FROM sampled_values WHERE metric = $metric
GROUP BY ALL ORDER BY ALL
