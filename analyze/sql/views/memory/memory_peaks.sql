-- Answers: when was the footprint of the process tree highest, within the time window?
-- Parameters: none (`selection` holds time window and processes)
-- Columns:
--   trace: which trace, from 1; absent where nothing is known of its footprint
--   t_ns [ns]: the first moment at which it was so high, not before the window
--   footprint_bytes [bytes]: allocated minus freed, all processes
-- Order: none
WITH held AS (
    SELECT trace, t_ns, footprint_bytes,
        lead(t_ns) OVER (PARTITION BY trace ORDER BY t_ns, is_gone) AS next_ns
    FROM footprint_events
)
SELECT trace, greatest(t_ns, coalesce(from_ns, t_ns)) AS t_ns, footprint_bytes
FROM held, selection
WHERE coalesce(next_ns > from_ns, true) AND coalesce(held.t_ns < to_ns, true) AND footprint_bytes > 0
QUALIFY row_number() OVER (PARTITION BY trace ORDER BY footprint_bytes DESC, held.t_ns) = 1
