-- Answers: what was the footprint of the process tree at each moment at which a process reported its counters?
-- The sum, over the processes alive, of the footprint each had last. A forked child shares its parent's memory: what it
-- inherited is not counted again (started_footprints), and freeing shared memory does not make the sum smaller.
-- Python's part of a process is at most its whole. The last process to end keeps its last footprint. The time window of
-- the selection is not applied: figures inside the window depend on what was before it.
-- Reads: heap_samples, memory_samples, started_footprints
-- Stored: no
-- Columns:
--   trace, t_ns, is_gone, footprint_bytes, python_footprint_bytes
-- Order: none
WITH told AS (
    SELECT trace, process, t_ns, 1 AS step, footprint_bytes, python_footprint_bytes FROM memory_samples
    UNION ALL
    SELECT trace, process, t_ns, 2, footprint_bytes, python_bytes FROM heap_samples
), events AS (
    SELECT trace, process, t_ns, 0 AS step, coalesce(start_footprint_bytes, 0) - inherited_bytes AS own,
        0 AS python_own
    FROM started_footprints
    UNION ALL
    SELECT trace, process, told.t_ns, step, footprint_bytes - inherited_bytes,
        python_footprint_bytes - python_inherited_bytes
    FROM told JOIN started_footprints USING (trace, process)
    UNION ALL
    SELECT trace, process, process_end_ns, 3, end_footprint_bytes - inherited_bytes, NULL
    FROM started_footprints WHERE process_end_ns IS NOT NULL AND end_footprint_bytes IS NOT NULL
    UNION ALL
    SELECT trace, process, process_end_ns, 4, 0, 0 FROM started_footprints
    WHERE process_end_ns IS NOT NULL
    QUALIFY process_end_ns < max(process_end_ns) OVER (PARTITION BY trace)
), levels AS (
    SELECT trace, process, t_ns, step, greatest(last_value(own IGNORE NULLS) OVER life, 0) AS level,
        least(greatest(last_value(python_own IGNORE NULLS) OVER life, 0), level) AS python_level
    FROM events WINDOW life AS (PARTITION BY trace, process ORDER BY t_ns, step ROWS UNBOUNDED PRECEDING)
), changes AS (
    SELECT trace, t_ns, step = 4 AS is_gone, level - coalesce(lag(level) OVER life, 0) AS change,
        python_level - coalesce(lag(python_level) OVER life, 0) AS python_change
    FROM levels WINDOW life AS (PARTITION BY trace, process ORDER BY t_ns, step)
), moments AS (
    SELECT trace, t_ns, is_gone, sum(change) AS change, sum(python_change) AS python_change
    FROM changes GROUP BY trace, t_ns, is_gone
)
SELECT trace, t_ns, is_gone, (sum(change) OVER tree)::BIGINT AS footprint_bytes,
    (sum(python_change) OVER tree)::BIGINT AS python_footprint_bytes
FROM moments WINDOW tree AS (PARTITION BY trace ORDER BY t_ns, is_gone ROWS UNBOUNDED PRECEDING)
