-- Answers: what were the samples of a metric, one after the other?
-- Parameters:
--   metric: cpu, wait, allocated, live-at-peak or copies
-- Columns:
--   t_ns [ns]: when, from the start of the recording; of a wait: when it began
--   process: process id
--   thread: thread id
--   stack: stack id; NULL = no Python stack was there or could be read
--   part: of cpu: python, native or system; of wait: sleep, disk, runnable or gil; NULL for the others
--   library: of native time: name of the library; NULL = code in no known image
--   symbol: of native time: function of the library; NULL = not known
--   value [s or bytes]: CPU time, waiting time, or estimated bytes
-- Order: time, then process, thread, stack, part, library, symbol
SELECT t_ns, process, thread, stack, part, library, symbol, value
FROM sampled_values WHERE metric = $metric
ORDER BY ALL
