-- Answers: what was the footprint of the process tree over time, in traces that hold every allocation?
-- The sum of the usable bytes that were alive. Memory that is allocated and freed at the same moment does not count. A
-- process loses its memory when it ends, except the last process to end. Of each thousandth of the time (cut once more
-- at the ends of the window) only some moments are kept: the first, the last, the lowest, the highest, and that with
-- the highest part of Python's.
-- The time window of the selection is not applied: figures inside the window depend on what was before it.
-- Reads: allocations, exact_traces, processes, selection
-- Stored: no
-- Columns:
--   trace, t_ns, footprint_bytes, python_footprint_bytes
-- Order: none
WITH gone AS (
    SELECT trace, process, end_ns AS gone_ns FROM processes, selection
    WHERE end_ns IS NOT NULL AND is_selected(selection, process)
    QUALIFY end_ns < max(end_ns) OVER (PARTITION BY trace)
), lives AS (
    SELECT trace, t_ns, coalesce(end_t_ns, gone_ns) AS end_t_ns, coalesce(a.usable_bytes, 0) AS usable_bytes,
        if(family IN ('pools', 'python', 'frames', 'arenas'), coalesce(a.usable_bytes, 0), 0) AS python_bytes
    FROM allocations a SEMI JOIN exact_traces USING (trace) LEFT JOIN gone USING (trace, process), selection
    WHERE is_selected(selection, process)
), moments AS (
    SELECT trace, t_ns, sum(change) AS change, sum(python_change) AS python_change
    FROM (
        SELECT trace, t_ns, usable_bytes AS change, python_bytes AS python_change FROM lives
        UNION ALL
        SELECT trace, end_t_ns, -usable_bytes, -python_bytes FROM lives WHERE end_t_ns IS NOT NULL
    ) GROUP BY trace, t_ns
), levels AS (
    SELECT trace, t_ns, (sum(change) OVER tree)::BIGINT AS footprint, (sum(python_change) OVER tree)::BIGINT AS python,
        t_ns // greatest((max(t_ns) OVER (PARTITION BY trace)) // 1000, 1) AS piece,
        coalesce(t_ns >= from_ns, false)::INTEGER + coalesce(t_ns >= to_ns, false)::INTEGER AS side
    FROM moments, selection WINDOW tree AS (PARTITION BY trace ORDER BY t_ns)
), rows AS (
    SELECT trace, piece, side, t_ns, {'footprint': footprint, 'before': -t_ns, 'python': python} AS level,
        {'python': python, 'before': -t_ns, 'footprint': footprint} AS python_level
    FROM levels
), pieces AS (
    SELECT trace, [min_by(level, t_ns), max_by(level, t_ns), min(level), max(level)] AS ends, max(python_level) AS top
    FROM rows GROUP BY trace, piece, side
), kept AS (
    SELECT trace, unnest(ends) AS level FROM pieces
    UNION
    SELECT trace, {'footprint': top.footprint, 'before': top.before, 'python': top.python} FROM pieces
)
SELECT trace, -level.before AS t_ns, level.footprint AS footprint_bytes, level.python AS python_footprint_bytes
FROM kept
