-- Answers: by how much did the memory charged to each stack change in each piece of the time, and what did it copy?
-- Time before or after the pieces counts in the first or the last.
-- Parameters:
--   origin_ns: start of the first piece
--   bin_ns: length of a piece
--   bins: number of pieces
-- Reads: copies, memory_samples, selection
-- Columns:
--   stack, bin, growth_bytes, copy_bytes
-- Order: none
WITH found AS (
    SELECT trace, t_ns, process, thread, stack, net_bytes, 0 AS bytes FROM memory_samples
    UNION ALL
    SELECT trace, t_ns, process, thread, stack, 0, bytes FROM copies
)
SELECT stack, least(greatest((t_ns - $origin_ns) // $bin_ns, 0), $bins - 1) AS bin,
    sum(net_bytes)::BIGINT AS growth_bytes, sum(bytes)::BIGINT AS copy_bytes
FROM found, selection
WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, stack)
GROUP BY stack, bin
