-- Answers: which libraries and functions does the native time of each line go to?
-- Reads: libraries, native_figures, user_locations
-- Columns:
--   file, line, function, first_line, library
--   class: interpreter, support, extension or shim
--   path: path of the library's file
--   symbol, ticks, native_s, parallel_native_s
-- Order: native_s, descending; then by name
SELECT file, line, function, first_line, library, class, path, symbol, sum(ticks)::BIGINT AS ticks,
    sum(native_s) AS native_s, sum(parallel_native_s) AS parallel_native_s
FROM native_figures n LEFT JOIN user_locations l ON l.trace = n.trace AND l.id = n.location
LEFT JOIN libraries b ON b.trace = n.trace AND b.module = n.module
GROUP BY ALL
ORDER BY native_s DESC, file, line, function, library, symbol, path
