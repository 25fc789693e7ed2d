-- Answers: how much did each stack allocate in each piece of the time, and when was it freed?
-- A piece has two halves: up to the moment at which its footprint was highest, and after it. Allocated minus freed, up
-- to and with the first half of a piece, is what was alive at that moment. A process frees its memory when it ends.
-- Parameters:
--   origin_ns: start of the first piece
--   bin_ns: length of a piece
--   peaks: of each piece, the moment (ns from the start of the recording) at which the footprint was highest
-- Reads: allocations, processes, selection
-- Columns:
--   stack
--   half: number of the half, from 0
--   alloc_bytes
--   unlived_bytes [bytes]: the part of alloc_bytes that was not followed
--   gone_bytes [bytes]: allocated by the stack at any time and freed in this half, estimated
--   kept_bytes [bytes]: allocated in this half and alive at the end of its process, estimated
-- Order: none
WITH halves AS (
    SELECT unnest($peaks::BIGINT[]) AS peak_ns, unnest(range(len($peaks::BIGINT[]))) AS bin
), lives AS (
    SELECT stack, a.t_ns, coalesce(alloc_bytes, 0) AS alloc_bytes, coalesce(live_bytes, 0) AS live_bytes,
        end_t_ns IS NULL AS is_kept, coalesce(end_t_ns, end_ns + 1) AS gone_ns,
        least(greatest((a.t_ns - $origin_ns) // $bin_ns, 0), len($peaks::BIGINT[]) - 1) AS bin,
        least(greatest((gone_ns - $origin_ns) // $bin_ns, 0), len($peaks::BIGINT[]) - 1) AS gone_bin
    FROM allocations a
    LEFT JOIN (SELECT trace, process, end_ns FROM processes) p ON p.trace = a.trace AND p.process = a.process, selection
    WHERE is_selected(selection, a.t_ns, a.process, thread) AND has_labels(a.trace, stack)
), events AS (
    SELECT stack, 2 * bin + (t_ns > peak_ns)::BIGINT AS half, alloc_bytes, alloc_bytes - live_bytes AS unlived_bytes,
        0 AS gone_bytes, if(is_kept, live_bytes, 0) AS kept_bytes
    FROM lives JOIN halves USING (bin)
    UNION ALL
    SELECT stack, 2 * gone_bin + (gone_ns > peak_ns)::BIGINT, 0, 0, live_bytes, 0
    FROM lives JOIN halves ON gone_bin = halves.bin WHERE gone_ns IS NOT NULL
)
SELECT stack, half, sum(alloc_bytes) AS alloc_bytes,
    sum(unlived_bytes) AS unlived_bytes, sum(gone_bytes) AS gone_bytes,
    sum(kept_bytes) AS kept_bytes
FROM events GROUP BY stack, half
