-- Answers: what was allocated, how much of it was alive at the peak and at the end, and how much was temporary?
-- Parameters:
--   by: line, function, type or allocator: what a row stands for
--   temporary_ns [ns]: allocations that lived no longer than this are temporary too; NULL = no such limit
--   temporary_allocations: so are those freed before their process made more than so many others; NULL = no such limit
-- Reads: allocation_counts, allocation_lives, sampled_intervals
-- Columns:
--   file: by line and function: file name; NULL = no frame in the user's code
--   line: by line: line number; by function: its first line
--   function: by line and function: qualified name
--   first_line: by line and function: first line of the function
--   type: by type: type of the Python object; NULL = not a Python object, or unknown
--   allocator: by allocator: the function that allocated the memory
--   family: by allocator: pools, python, native, mapping, frames or arenas
--   is_import
--   samples: number of allocation samples
--   allocations: number of allocations that they stand for
--   allocations_variance: square of the standard error of allocations
--   alloc_bytes, alloc_variance, live_at_peak_bytes, live_at_peak_variance, live_at_end_bytes
--   live_at_end_variance, alloc_interval_bytes, live_interval_bytes
--   temporary_allocations: number of allocations freed by the line that allocated them, or within the limits
--   temporary_bytes [bytes]: size of these allocations
--   temporary_variance: square of the standard error of temporary_bytes, as alloc_variance, with live_interval_bytes
--   died_young: number of allocations that were freed before a garbage collection; NULL = unknown
--   survived: number of allocations that survived a garbage collection; NULL = unknown
--   freed: number of allocations that were freed
--   lifetimes_s [s]: sum of their lifetimes
-- Order: none
WITH counted AS (FROM allocation_counts WHERE $temporary_allocations IS NOT NULL), keyed AS (
    SELECT a.*, if($by IN ('line', 'function'), a.file, NULL) AS by_file,
        CASE $by WHEN 'line' THEN a.line WHEN 'function' THEN a.first_line END AS by_line,
        if($by = 'function', a.function, NULL) AS by_function, if($by = 'type', a.type, NULL) AS by_type,
        if($by = 'allocator', a.allocator, NULL) AS by_allocator, if($by = 'allocator', a.family, NULL) AS by_family,
        (end_t_ns - a.t_ns) / 1e9 AS life_s, coalesce(alloc_bytes, 0) AS most,
        is_same_line OR coalesce(end_t_ns - a.t_ns <= $temporary_ns, false)
            OR coalesce(later.made - counted.made <= $temporary_allocations, false) AS is_temporary
    FROM allocation_lives a ASOF LEFT JOIN counted later
        ON later.trace = a.trace AND later.process = a.process AND later.t_ns < a.end_t_ns
    LEFT JOIN counted ON counted.trace = a.trace AND counted.process = a.process AND counted.t_ns = a.t_ns
)
SELECT by_file AS file, by_line AS line, if($by = 'line', max_by(function, most), by_function) AS function,
    if($by IN ('line', 'function'), max_by(first_line, most), NULL) AS first_line, by_type AS "type",
    by_allocator AS allocator, by_family AS family, is_import, count(*) AS samples, sum(alloc_count) AS allocations,
    sum(alloc_count * (weight - 1)) AS allocations_variance, sum(alloc_bytes) AS alloc_bytes,
    sum(alloc_variance) AS alloc_variance,
    sum(live_bytes) FILTER (is_at_peak) AS live_at_peak_bytes,
    sum(live_variance) FILTER (is_at_peak) AS live_at_peak_variance,
    sum(live_bytes) FILTER (end_t_ns IS NULL) AS live_at_end_bytes,
    sum(live_variance) FILTER (end_t_ns IS NULL) AS live_at_end_variance,
    greatest(max(interval_bytes), max(base_bytes), 0) AS alloc_interval_bytes,
    greatest(max(live_interval_bytes), max(base_bytes), 0) AS live_interval_bytes,
    sum(live_count) FILTER (is_temporary) AS temporary_allocations,
    sum(live_bytes) FILTER (is_temporary) AS temporary_bytes,
    sum(live_variance) FILTER (is_temporary) AS temporary_variance,
    sum(if(survived = 0 AND end_t_ns IS NOT NULL, live_count, 0)) FILTER (survived IS NOT NULL) AS died_young,
    sum(if(survived > 0, live_count, 0)) FILTER (survived IS NOT NULL) AS survived,
    sum(live_count) FILTER (end_t_ns IS NOT NULL) AS freed, sum(live_count * life_s) AS lifetimes_s
FROM keyed LEFT JOIN sampled_intervals USING (trace)
GROUP BY by_file, by_line, by_function, by_type, by_allocator, by_family, is_import
