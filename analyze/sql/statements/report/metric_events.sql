-- Answers: what were the samples of a metric, one after the other?
-- Parameters:
--   metric: cpu, wait, allocated, live-at-peak or copies
-- Reads: sampled_values
-- Columns:
--   t_ns, process, thread, stack, part
--   library: of native time: name of the library; NULL = code in no known image
--   symbol: of native time: function of the library; NULL = not known
--   value
-- Order: time, then process, thread, stack, part, library, symbol
SELECT t_ns, process, thread, stack, part, library, symbol, value
FROM sampled_values WHERE metric = $metric
ORDER BY ALL
