-- Answers: what did the resident set of the (one) trace's process tree consist of, at its peak and at the end?
-- Sums over the processes alive, each with the counters that it reported closest to the reading of its resident set.
-- Counters of its last 10 ms, after its interpreter finalized, are used only if there are no others. Pages that
-- processes share count in each of them, in the resident set and in its parts.
-- Reads: heap_samples, processes, rss_events, rss_samples, selection
-- Columns:
--   moment: peak (of the resident set) or end (the last reading)
--   t_s
--   processes: number of processes alive
--   rss_bytes [bytes]: resident set
--   pool_bytes [bytes]: live blocks in pymalloc's pools
--   python_bytes [bytes]: live blocks of malloc, and frame stacks, that Python's allocators handed out
--   native_bytes [bytes]: live blocks of malloc that other code allocated
--   mapped_bytes [bytes]: touched pages of anonymous mappings that libraries made
--   unused_bytes [bytes]: the rest of pymalloc's arenas
--   shared_bytes [bytes]: backed by files or shared between processes; NULL = not recorded
--   reserved_bytes [bytes]: address space without memory, not a part of the resident set
-- Order: the peak first
WITH readings AS (
    SELECT t_ns, rss_bytes FROM rss_events, selection
    WHERE is_in_window(selection, t_ns) AND rss_bytes > 0
), moments AS (
    SELECT 'peak' AS moment, arg_min(t_ns, {'low': -rss_bytes, 't': t_ns}) AS t_ns FROM readings
    UNION ALL
    SELECT 'end', max(t_ns) FROM readings
), alive AS (
    SELECT moment, m.t_ns, p.process, end_ns FROM moments m, (
        SELECT *, max(end_ns) OVER () AS last_ns FROM processes
    ) p, selection
    WHERE p.t_ns <= m.t_ns AND coalesce(end_ns > m.t_ns OR end_ns = last_ns, true)
        AND is_selected(selection, p.process)
), resident AS (
    SELECT a.moment, a.t_ns, a.process, end_ns, r.t_ns AS read_ns, rss_bytes, shared_bytes
    FROM alive a ASOF JOIN (FROM rss_samples WHERE rss_bytes IS NOT NULL) r
        ON r.process = a.process AND r.t_ns <= a.t_ns
), told AS (
    SELECT moment, process, h.* EXCLUDE (trace, t_ns, process)
    FROM resident r JOIN heap_samples h USING (process)
    QUALIFY row_number() OVER (
        PARTITION BY moment, process
        ORDER BY coalesce(h.t_ns > end_ns - 10000000, false), abs(h.t_ns - read_ns), h.t_ns
    ) = 1
)
SELECT moment, any_value(t_ns) / 1e9 AS t_s, count(*) AS processes, sum(rss_bytes)::BIGINT AS rss_bytes,
    coalesce(sum(greatest(pool_bytes, 0)), 0)::BIGINT AS pool_bytes,
    coalesce(sum(greatest(python_bytes - pool_bytes, 0)), 0)::BIGINT AS python_bytes,
    coalesce(sum(greatest(footprint_bytes - python_bytes - mapped_bytes, 0)), 0)::BIGINT AS native_bytes,
    coalesce(sum(greatest(mapped_bytes - coalesce(untouched_bytes, 0), 0)), 0)::BIGINT AS mapped_bytes,
    coalesce(sum(greatest(arena_bytes - pool_bytes, 0)), 0)::BIGINT AS unused_bytes,
    sum(shared_bytes)::BIGINT AS shared_bytes, coalesce(sum(reserved_bytes), 0)::BIGINT AS reserved_bytes
FROM resident LEFT JOIN told USING (moment, process)
GROUP BY moment ORDER BY moment DESC
