-- Answers: what does a metric add up to, by process, thread, stack and what was running below it?
-- Parameters:
--   metric: cpu, wait, allocated, live-at-peak or copies
-- Reads: sampled_values
-- Columns:
--   process, thread, stack, part
--   library: of native time: name of the library; NULL = code in no known image
--   symbol: of native time: function of the library; NULL = not known
--   value
-- Order: process, thread, stack, part, library, symbol
SELECT process, thread, stack, part, library, symbol, sum(value) AS value
FROM sampled_values WHERE metric = $metric
GROUP BY ALL ORDER BY ALL
