-- Answers: which native functions did each line call, and how much CPU time went to them?
-- Reads: callee_figures, user_locations
-- Columns:
--   file, line, function, first_line, library
--   image
--   symbol, ticks, cpu_s
-- Order: cpu_s, descending; then by name
SELECT file, line, function, first_line, library, image, symbol, sum(ticks)::BIGINT AS ticks, sum(cpu_s) AS cpu_s
FROM callee_figures c JOIN user_locations l ON l.trace = c.trace AND l.id = c.location
GROUP BY ALL
ORDER BY cpu_s DESC, file, line, function, library, symbol
