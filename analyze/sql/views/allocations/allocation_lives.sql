-- Answers: whose is each allocation of the selection, and what became of it?
-- Parameters: none (`selection` and `user_files` hold what was asked for)
-- Columns:
--   trace: which trace, from 1
--   process: process id
--   t_ns [ns]: when it was allocated, from the start of the recording
--   end_t_ns [ns]: when it was freed; NULL = alive at the end of its process, or not followed
--   file: file of the line that it is charged to; NULL = no frame of the user's
--   line: that line
--   function: qualified name
--   first_line: first line of the function
--   type: type of the Python object; NULL = no Python object, or not known
--   allocator: the function that gave it
--   family: pools, python, native, mapping or frames
--   weight: how many blocks like it were allocated; NULL = not sampled
--   alloc_count: allocations that the row stands for; NULL = not sampled
--   alloc_bytes [bytes]: their size; NULL = not sampled
--   alloc_variance: what the row adds to the square of the standard error of a sum of alloc_bytes
--   live_count: as alloc_count, for sums over how they lived; NULL = not followed, or not sampled
--   live_bytes [bytes]: as alloc_bytes, likewise
--   live_variance: as alloc_variance, likewise
--   survived: garbage collections that it lived through; NULL = no Python, or not followed
--   is_import: allocated while importing a module
--   is_same_line: freed by the line that allocated it
--   is_at_peak: alive when the footprint of the process tree was highest
-- Order: none
SELECT a.trace, process, a.t_ns, end_t_ns, o.file, o.line, o.function, o.first_line, a.type, allocator, family,
    weight, alloc_count, alloc_bytes, alloc_variance, live_count, live_bytes, live_variance, survived,
    i.stack IS NOT NULL AS is_import,
    end_t_ns IS NOT NULL AND coalesce(o.file = f.file AND o.line = f.line, false) AS is_same_line,
    coalesce(a.t_ns <= peak_ns AND coalesce(end_t_ns > peak_ns, true), false) AS is_at_peak
FROM allocations a LEFT JOIN process_moments USING (trace, process)
LEFT JOIN stack_owners o ON o.trace = a.trace AND o.stack = a.stack
LEFT JOIN stack_owners f ON f.trace = a.trace AND f.stack = a.free_stack
LEFT JOIN import_stacks i ON i.trace = a.trace AND i.stack = a.stack, selection
WHERE coalesce(a.t_ns >= from_ns, true) AND coalesce(a.t_ns < to_ns, true)
    AND (process_ids IS NULL OR list_contains(process_ids, process))
    AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
