-- Answers: at which interval were allocations sampled that no sample tells of?
-- It is the coarsest of the base intervals that were in force while a sample was taken. A line without samples has
-- allocated less than three of them in 95 % of the cases: exp(-3) is the chance that no sample falls on so much.
-- Reads: alloc_rows, settings
-- Stored: yes
-- Columns:
--   trace
--   base_bytes [bytes]: that interval; 1 = every allocation was recorded; 0 = allocations were not sampled at all
-- Order: none
WITH asked AS (
    SELECT trace, any_value(if(value = 'auto', 262144, coalesce(try_cast(value AS BIGINT), 262144))) AS base_bytes
    FROM settings WHERE name = 'alloc_interval' GROUP BY trace
), seen AS (
    SELECT trace, max(coalesce(base_interval_bytes, interval_bytes)) AS base_bytes FROM alloc_rows GROUP BY trace
)
SELECT trace, coalesce(seen.base_bytes, asked.base_bytes, 0) AS base_bytes
FROM asked FULL JOIN seen USING (trace)
