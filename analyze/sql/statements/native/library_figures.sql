-- Answers: which libraries and functions does the native time of each line go to?
-- Parameters: none (`selection` and `user_files` hold what was asked for)
-- Columns:
--   file: file name; NULL, like the three that follow = samples with no frame of the user's
--   line: line number
--   function: qualified name
--   first_line: first line of that function
--   library: name of the library (view libraries); NULL = code in no known image
--   class: interpreter, support, extension or shim
--   path: path of the library's file
--   symbol: function of the library; NULL = not known
--   ticks: CPU ticks
--   native_s [s]: user CPU time in native code
--   parallel_native_s [s]: the part of it that threads of libraries spent
-- Order: native_s, descending; then by name
SELECT file, line, function, first_line, library, class, path, symbol, sum(ticks)::BIGINT AS ticks,
    sum(native_s) AS native_s, sum(parallel_native_s) AS parallel_native_s
FROM native_figures n LEFT JOIN user_locations l ON l.trace = n.trace AND l.id = n.location
LEFT JOIN libraries b ON b.trace = n.trace AND b.module = n.module
GROUP BY ALL
ORDER BY native_s DESC, file, line, function, library, symbol, path
