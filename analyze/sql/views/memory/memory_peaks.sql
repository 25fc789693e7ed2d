-- Answers: when was the footprint of the process tree highest, within the time window?
-- Reads: footprint_events, selection
-- Stored: no
-- Columns:
--   trace: number of the trace, from 1; traces whose footprint is unknown are absent
--   t_ns [ns]: the first moment at which it was highest, not before the start of the window
--   footprint_bytes
-- Order: none
WITH held AS (
    SELECT trace, t_ns, footprint_bytes,
        lead(t_ns) OVER (PARTITION BY trace ORDER BY t_ns, is_gone) AS next_ns
    FROM footprint_events
)
SELECT trace, greatest(t_ns, from_ns) AS t_ns, footprint_bytes
FROM held, selection
WHERE is_in_window(selection, held.t_ns, next_ns - 1) AND footprint_bytes > 0
QUALIFY row_number() OVER (PARTITION BY trace ORDER BY footprint_bytes DESC, held.t_ns) = 1
