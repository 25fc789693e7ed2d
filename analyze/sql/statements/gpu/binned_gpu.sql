-- Answers: how busy were the program's GPUs in each piece of the time, and how much memory did it have on them?
-- Time outside of the pieces is left out; a piece without any observation has no row.
-- Parameters:
--   origin_ns: start of the first piece
--   bin_ns: length of a piece
--   bins: number of pieces
-- Reads: gpu_ticks, selection
-- Columns:
--   bin
--   gpu_percent [%]: how long kernels ran, in percent of one device's time; NULL = unknown
--   gpu_memory_bytes [bytes]: most memory at one moment; NULL = no observation
-- Order: bin
WITH sums AS (
    SELECT t_ns - $origin_ns AS first_ns, t_ns + duration_ns - $origin_ns AS last_ns, sum(busy_ns) AS busy_ns,
        sum(memory_bytes) AS memory_bytes
    FROM gpu_ticks, selection
    WHERE charged AND is_selected(selection, process)
    GROUP BY trace, t_ns, duration_ns
), spread AS (
    SELECT *, unnest(range(greatest(first_ns // $bin_ns, 0),
        least(greatest(last_ns - 1, first_ns) // $bin_ns + 1, $bins))) AS bin
    FROM sums WHERE last_ns >= 0
)
SELECT bin, 100 * sum(busy_ns * (least(last_ns, (bin + 1) * $bin_ns) - greatest(first_ns, bin * $bin_ns))
        / greatest(last_ns - first_ns, 1)) / $bin_ns AS gpu_percent,
    max(memory_bytes)::BIGINT AS gpu_memory_bytes
FROM spread GROUP BY bin ORDER BY bin
