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
), lengths AS (
    SELECT trace, greatest(max(greatest(t_ns, coalesce(end_t_ns, 0))) // 1000, 1) AS length_ns FROM lives
    GROUP BY trace
), changes AS (
    SELECT trace, t_ns, usable_bytes AS change, python_bytes AS python_change FROM lives
    UNION ALL
    SELECT trace, end_t_ns, -usable_bytes, -python_bytes FROM lives WHERE end_t_ns IS NOT NULL
), levels AS (  -- all changes of a moment are in each of its sums; DOUBLE takes half of what exact sums of BIGINT take
    SELECT trace, t_ns, (sum(change::DOUBLE) OVER tree)::BIGINT AS footprint,
        (sum(python_change::DOUBLE) OVER tree)::BIGINT AS python
    FROM changes WINDOW tree AS (PARTITION BY trace ORDER BY t_ns)
), rows AS (  -- heights order moments by their level, then by time, the earliest last: comparing structs is slow
    SELECT trace, t_ns // length_ns AS piece, t_ns, footprint, python,
        coalesce(t_ns >= from_ns, false)::INTEGER + coalesce(t_ns >= to_ns, false)::INTEGER AS side,
        footprint::HUGEINT * 4611686018427387904 - t_ns AS height,
        python::HUGEINT * 4611686018427387904 - t_ns AS python_height
    FROM levels JOIN lengths USING (trace), selection
), pieces AS (
    SELECT trace, [
        {'t_ns': min(t_ns), 'footprint': min_by(footprint, t_ns), 'python': min_by(python, t_ns)},
        {'t_ns': max(t_ns), 'footprint': max_by(footprint, t_ns), 'python': max_by(python, t_ns)},
        {'t_ns': min_by(t_ns, height), 'footprint': min(footprint), 'python': min_by(python, height)},
        {'t_ns': max_by(t_ns, height), 'footprint': max(footprint), 'python': max_by(python, height)},
        {'t_ns': max_by(t_ns, python_height), 'footprint': max_by(footprint, python_height), 'python': max(python)}
    ] AS kept
    FROM rows GROUP BY trace, piece, side
)
SELECT DISTINCT trace, level.t_ns AS t_ns, level.footprint AS footprint_bytes, level.python AS python_footprint_bytes
FROM (SELECT trace, unnest(kept) AS level FROM pieces)
