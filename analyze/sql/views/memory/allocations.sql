-- Answers: for how many allocations does each sample stand, and when was it freed?
-- A block of b usable bytes is sampled with probability 1 - exp(-b / interval), and stands for the inverse of that many
-- blocks (computed as a series where b / interval is so small that the difference would lose digits). Sums over the
-- rows are unbiased; the standard error of a sum of bytes is the root of the sum of the variances.
-- Reads: alloc_rows
-- Stored: no
-- Columns:
--   trace, t_ns, process, thread, stack
--   size_bytes [bytes]: requested size; of this part, if a mapping was unmapped in parts
--   usable_bytes [bytes]: usable size, as the allocator rounded it up; of this part, likewise
--   weight: how many blocks like it were allocated; NULL = not sampled (recorded because it set a new maximum)
--   live_weight: the same for sums over how long it lived; NULL = it was not followed, or not sampled
--   alloc_count: allocations that the row stands for; the parts of a mapping add up to its weight
--   alloc_bytes [bytes]: weight * size_bytes
--   alloc_variance: what the row adds to the square of the standard error of a sum of alloc_bytes
--   live_count: as alloc_count, with live_weight
--   live_bytes [bytes]: as alloc_bytes, with live_weight
--   live_variance: as alloc_variance, with live_weight
--   interval_bytes [bytes]: sampling interval that weight follows from; NULL = not sampled
--   live_interval_bytes [bytes]: the same for live_weight; if it is no longer followed, twice interval_bytes
--   end_t_ns
--   is_followed: it was followed until it was freed, sampled or not
--   free_stack, survived
--   at_exit: freed while the interpreter was finalizing; counts as alive at the end
--   allocator
--   python: it went through Python's allocators
--   family: pools (of pymalloc), python (malloc through Python's allocators), native (malloc), mapping, frames (the
--     interpreter's frame stack), arenas (of pymalloc, where what is in them was not counted)
--   type
--   maximum: the footprint reached a new maximum with this allocation
--   native: id of the native function that asked for it (native_frames); NULL = recorded without --native-alloc
-- Order: none
WITH chances AS (
    SELECT *, greatest(coalesce(block_bytes, usable_bytes), 1) AS block, block / interval_bytes AS x,
        block / life_interval_bytes AS life_x,
        if(block_bytes IS NULL, 1.0, block / greatest(usable_bytes, 1))::DOUBLE AS parts
    FROM alloc_rows
)
SELECT trace, t_ns, process, thread, stack, size_bytes, usable_bytes,
    CASE WHEN interval_bytes <= 1 THEN 1.0 WHEN x < 0.001 THEN 1 / x + 0.5 + x / 12
        ELSE 1 / (1 - exp(-x)) END AS weight,
    CASE WHEN life_interval_bytes <= 1 THEN 1.0 WHEN life_x < 0.001 THEN 1 / life_x + 0.5 + life_x / 12
        ELSE 1 / (1 - exp(-life_x)) END AS live_weight,
    weight / parts AS alloc_count, weight * size_bytes AS alloc_bytes,
    alloc_bytes * (weight - 1) * (size_bytes * parts) AS alloc_variance,
    live_weight / parts AS live_count, live_weight * size_bytes AS live_bytes,
    live_bytes * (live_weight - 1) * (size_bytes * parts) AS live_variance,
    interval_bytes,
    coalesce(life_interval_bytes, if(interval_bytes < 1e12, 2 * interval_bytes, interval_bytes)) AS live_interval_bytes,
    if(at_exit, NULL, t_ns + lifetime_ns) AS end_t_ns,
    coalesce(life_interval_bytes, lifetime_ns, survived) IS NOT NULL AS is_followed,
    free_stack, survived, at_exit, allocator, python,
    CASE
        WHEN allocator = 'pymalloc' THEN 'pools'
        WHEN allocator IN ('mmap', 'mremap', 'mprotect') THEN 'mapping'
        WHEN allocator IN ('chunk', 'arena') THEN if(allocator = 'chunk', 'frames', 'arenas')
        WHEN python THEN 'python'
        ELSE 'native'
    END AS family, "type", maximum, native
FROM chances
