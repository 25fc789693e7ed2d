-- Answers: how much GPU memory did the selection use at most, all its processes and devices together?
-- Reads: gpu_ticks, selection
-- Columns:
--   gpu_peak_bytes [bytes]: most of it at one moment
-- Order: one row
SELECT coalesce(max(memory_bytes), 0)::BIGINT AS gpu_peak_bytes FROM (
    SELECT sum(memory_bytes) AS memory_bytes FROM gpu_ticks, selection
    WHERE charged AND memory_bytes IS NOT NULL
        AND is_in_window(selection, t_ns, t_ns + duration_ns) AND is_selected(selection, process)
    GROUP BY trace, t_ns
)
