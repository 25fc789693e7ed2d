-- Answers: what did the resident set of the (one) trace's process tree consist of, at its peak and at the end?
-- Sums over the processes alive, each with counters that it reported near the reading of its resident set: the last
-- ones before it, the first after it, or the last ones before it that are not from its last 10 ms (after that, it has
-- finalized). Of these, those whose footprint differs by at most the threshold from that at the reading, then those
-- from before the last 10 ms, then the closest. Pages that processes share count in each, also in its parts.
-- Reads: heap_samples, memory_samples, resident_moments, settings
-- Columns:
--   moment: peak (of the resident set) or end (the last reading before finalization)
--   t_s
--   processes: number of processes alive
--   rss_bytes [bytes]: resident set
--   pool_bytes [bytes]: live blocks in pymalloc's pools; whole arenas where only these were counted
--   python_bytes [bytes]: live blocks of malloc, and frame stacks, that Python's allocators handed out
--   native_bytes [bytes]: live blocks of malloc that other code allocated
--   mapped_bytes [bytes]: touched pages of anonymous mappings that are in no other part
--   shared_mapped_bytes [bytes]: of shared ones, a part of shared_bytes; NULL = unknown: mapped_bytes has them, too
--   shared_bytes
--   unused_bytes [bytes]: the rest of pymalloc's arenas; NULL = unknown, as only arenas were counted
--   reserved_bytes [bytes]: address space without memory, not a part of the resident set
-- Order: the peak first
WITH step AS (
    SELECT coalesce(max(try_cast(value AS BIGINT)), 10485767) AS step_bytes FROM settings
    WHERE name = 'memory_threshold_bytes'
), told AS (
    SELECT process, t_ns, footprint_bytes FROM heap_samples
    UNION ALL
    SELECT process, t_ns, footprint_bytes FROM memory_samples
), held AS (
    SELECT r.*, f.footprint_bytes AS held_bytes,
        least(r.read_ns, coalesce(process_end_ns - 10000000, r.read_ns)) AS running_ns
    FROM resident_moments r ASOF LEFT JOIN told f ON f.process = r.process AND f.t_ns <= r.read_ns
), beside AS (
    SELECT r.*, h.* EXCLUDE (trace, process, t_ns), h.t_ns AS heap_ns
    FROM held r ASOF JOIN heap_samples h ON h.process = r.process AND h.t_ns <= r.read_ns
    UNION ALL
    SELECT r.*, h.* EXCLUDE (trace, process, t_ns), h.t_ns
    FROM held r ASOF JOIN heap_samples h ON h.process = r.process AND h.t_ns > r.read_ns
    UNION ALL
    SELECT r.*, h.* EXCLUDE (trace, process, t_ns), h.t_ns
    FROM held r ASOF JOIN heap_samples h ON h.process = r.process AND h.t_ns <= r.running_ns
), counted AS (
    SELECT b.* EXCLUDE (t_ns, rss_bytes, shared_bytes) FROM beside b, step
    QUALIFY row_number() OVER (
        PARTITION BY moment, process
        ORDER BY coalesce(abs(footprint_bytes - held_bytes) > step_bytes, false),
            coalesce(heap_ns > process_end_ns - 10000000, false), abs(heap_ns - read_ns), heap_ns
    ) = 1
)
SELECT moment, any_value(t_ns) / 1e9 AS t_s, count(*) AS processes, sum(rss_bytes)::BIGINT AS rss_bytes,
    coalesce(sum(greatest(coalesce(pool_bytes, arena_bytes), 0)), 0)::BIGINT AS pool_bytes,
    coalesce(sum(greatest(python_bytes - coalesce(pool_bytes, arena_bytes), 0)), 0)::BIGINT AS python_bytes,
    coalesce(sum(greatest(footprint_bytes - python_bytes - mapped_bytes, 0)), 0)::BIGINT AS native_bytes,
    coalesce(sum(greatest(mapped_bytes - coalesce(untouched_bytes, 0) - told_bytes, 0)), 0)::BIGINT AS mapped_bytes,
    if(count(mapped_bytes) > count(shared_mapped_bytes), NULL, sum(least(told_bytes, shared_bytes)))::BIGINT
        AS shared_mapped_bytes, sum(shared_bytes)::BIGINT AS shared_bytes,
    if(count(arena_bytes) > count(pool_bytes), NULL, coalesce(sum(greatest(arena_bytes - pool_bytes, 0)), 0))::BIGINT
        AS unused_bytes, coalesce(sum(reserved_bytes), 0)::BIGINT AS reserved_bytes
FROM (FROM resident_moments LEFT JOIN counted USING (moment, process)
    SELECT *, if(shared_bytes IS NULL, 0, coalesce(shared_mapped_bytes, 0)) AS told_bytes)
GROUP BY moment ORDER BY moment DESC
