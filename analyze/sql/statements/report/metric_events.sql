-- Answers: which samples of a metric are there, one after the other?
-- Parameters:
--   metric: cpu, wait, allocated, live-at-peak or copies
-- Reads: sampled_values
-- Columns:
--   t_ns, process, thread, stack, part, library, symbol, called_native, value
-- Order: time, then process, thread, stack, part, library, symbol, called_native
SELECT t_ns, process, thread, stack, part, library, symbol, called_native, value
FROM sampled_values WHERE metric = $metric
ORDER BY ALL
