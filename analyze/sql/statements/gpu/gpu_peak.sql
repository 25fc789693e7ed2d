-- Answers: how much GPU memory did the selection use at most, all its processes and devices together?
-- Parameters: none (the table `selection` holds time window and processes)
-- Columns:
--   gpu_peak_bytes [bytes]: most of it at one moment
-- Order: one row
SELECT coalesce(max(memory_bytes), 0)::BIGINT AS gpu_peak_bytes FROM (
    SELECT sum(memory_bytes) AS memory_bytes FROM gpu_ticks, selection
    WHERE charged AND memory_bytes IS NOT NULL AND coalesce(t_ns + duration_ns >= from_ns, true)
        AND coalesce(t_ns < to_ns, true) AND (process_ids IS NULL OR list_contains(process_ids, process))
    GROUP BY trace, t_ns
)
