-- Answers: what was the footprint of the process tree at each moment at which a process reported its counters?
-- The sum, over the processes alive, of the footprint each had last. A forked child shares its parent's memory: what it
-- inherited is not counted again (start_footprint_bytes; its Python part is taken from the parent's last sample), and
-- freeing shared memory does not make the sum smaller. The last process to end keeps its last footprint.
-- The time window of the selection is not applied: figures inside the window depend on what was before it.
-- Reads: heap_samples, memory_samples, processes, selection
-- Stored: no
-- Columns:
--   trace, t_ns, is_gone, footprint_bytes, python_footprint_bytes
-- Order: none
WITH told AS (
    SELECT trace, process, t_ns, 1 AS step, footprint_bytes, python_footprint_bytes FROM memory_samples
    UNION ALL
    SELECT trace, process, t_ns, 2, footprint_bytes, python_bytes FROM heap_samples
), born AS (
    SELECT p.trace, p.process, p.t_ns, p.end_ns, p.end_footprint_bytes, p.start_footprint_bytes,
        if(cause = 'fork', coalesce(p.start_footprint_bytes, 0), 0) AS inherited,
        if(cause = 'fork', least(coalesce(m.python_footprint_bytes, 0), inherited), 0) AS python_inherited
    FROM processes p ASOF LEFT JOIN (
        SELECT trace, process, t_ns, max_by(python_footprint_bytes, step) AS python_footprint_bytes
        FROM told GROUP BY trace, process, t_ns
    ) m ON m.trace = p.trace AND m.process = p.parent AND m.t_ns <= p.t_ns, selection
    WHERE is_selected(selection, p.process)
), events AS (
    SELECT trace, process, t_ns, 0 AS step, coalesce(start_footprint_bytes, 0) - inherited AS own, 0 AS python_own
    FROM born
    UNION ALL
    SELECT trace, process, told.t_ns, step, footprint_bytes - inherited, python_footprint_bytes - python_inherited
    FROM told JOIN born USING (trace, process)
    UNION ALL
    SELECT trace, process, end_ns, 3, end_footprint_bytes - inherited, NULL
    FROM born WHERE end_ns IS NOT NULL AND end_footprint_bytes IS NOT NULL
    UNION ALL
    SELECT trace, process, end_ns, 4, 0, 0 FROM born
    WHERE end_ns IS NOT NULL
    QUALIFY end_ns < max(end_ns) OVER (PARTITION BY trace)
), levels AS (
    SELECT trace, process, t_ns, step, greatest(last_value(own IGNORE NULLS) OVER life, 0) AS own,
        greatest(last_value(python_own IGNORE NULLS) OVER life, 0) AS python_own
    FROM events WINDOW life AS (PARTITION BY trace, process ORDER BY t_ns, step ROWS UNBOUNDED PRECEDING)
), changes AS (
    SELECT trace, t_ns, step = 4 AS is_gone, own - coalesce(lag(own) OVER life, 0) AS change,
        python_own - coalesce(lag(python_own) OVER life, 0) AS python_change
    FROM levels WINDOW life AS (PARTITION BY trace, process ORDER BY t_ns, step)
), moments AS (
    SELECT trace, t_ns, is_gone, sum(change) AS change, sum(python_change) AS python_change
    FROM changes GROUP BY trace, t_ns, is_gone
)
SELECT trace, t_ns, is_gone, (sum(change) OVER tree)::BIGINT AS footprint_bytes,
    (sum(python_change) OVER tree)::BIGINT AS python_footprint_bytes
FROM moments WINDOW tree AS (PARTITION BY trace ORDER BY t_ns, is_gone ROWS UNBOUNDED PRECEDING)
