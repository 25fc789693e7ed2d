-- Answers: how much GPU time is charged to each stack in each piece of the time, and how much GPU memory was in use?
-- Time before or after the pieces counts in the first or the last.
-- Parameters:
--   origin_ns: start of the first piece
--   bin_ns: length of a piece
--   bins: number of pieces
-- Reads: gpu_charges
-- Columns:
--   stack: stack id; NULL = no thread was near the GPU, or it had no Python stack
--   bin
--   gpu_us [us]: GPU time
--   gpu_peak_bytes
-- Order: none
SELECT stack, least(greatest((t_ns - $origin_ns) // $bin_ns, 0), $bins - 1) AS bin,
    sum(gpu_s) * 1e6 AS gpu_us, max(memory_bytes)::BIGINT AS gpu_peak_bytes
FROM gpu_charges GROUP BY stack, bin
