-- Answers: what does a metric add up to, by process, thread, stack, and the part or native function that was running?
-- Parameters:
--   metric: cpu, wait, allocated, live-at-peak or copies
-- Reads: sampled_values
-- Columns:
--   process, thread, stack, part, library, symbol, called_native, value
-- Order: process, thread, stack, part, library, symbol, called_native
SELECT process, thread, stack, part, library, symbol, called_native, sum(value) AS value
FROM sampled_values WHERE metric = $metric
GROUP BY ALL ORDER BY ALL
