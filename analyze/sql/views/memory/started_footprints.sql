-- Answers: which memory did each process have when it started, and which part of it was its parent's?
-- A forked child has its parent's memory. Python's part of it is not recorded: it is taken from the parent's last
-- counters before the fork, or from the child's first ones, whichever has a footprint nearer to the inherited one.
-- Reads: heap_samples, memory_samples, processes, selection
-- Stored: no
-- Columns:
--   trace, process, t_ns
--   process_end_ns
--   start_footprint_bytes [bytes]: its footprint when it started; NULL = not recorded
--   end_footprint_bytes [bytes]: its footprint when it ended; NULL = unknown
--   inherited_bytes [bytes]: the parent's memory; 0 = the process was not forked
--   python_inherited_bytes [bytes]: the part of inherited_bytes that Python's allocators made, estimated
-- Order: none
WITH counters AS (
    SELECT trace, process, t_ns, footprint_bytes, python_footprint_bytes FROM memory_samples
    UNION ALL
    SELECT trace, process, t_ns, footprint_bytes, python_bytes FROM heap_samples
), born AS (
    SELECT trace, process, parent, t_ns, end_ns AS process_end_ns, end_footprint_bytes, start_footprint_bytes,
        if(cause = 'fork', coalesce(start_footprint_bytes, 0), 0) AS inherited_bytes
    FROM processes, selection
    WHERE is_selected(selection, process)
), shares AS (
    SELECT b.trace, b.process, abs(c.footprint_bytes - inherited_bytes) AS distance,
        least(coalesce(c.python_footprint_bytes / nullif(c.footprint_bytes, 0), 0), 1) AS share
    FROM born b ASOF JOIN counters c ON c.trace = b.trace AND c.process = b.parent AND c.t_ns <= b.t_ns
    UNION ALL
    SELECT b.trace, b.process, abs(c.footprint_bytes - inherited_bytes),
        least(coalesce(c.python_footprint_bytes / nullif(c.footprint_bytes, 0), 0), 1)
    FROM born b ASOF JOIN counters c ON c.trace = b.trace AND c.process = b.process AND c.t_ns >= b.t_ns
), nearest AS (
    SELECT trace, process, arg_min(share, {'distance': distance, 'share': share}) AS share
    FROM shares GROUP BY trace, process
)
SELECT trace, process, t_ns, process_end_ns, start_footprint_bytes, end_footprint_bytes, inherited_bytes,
    round(inherited_bytes * coalesce(share, 0))::BIGINT AS python_inherited_bytes
FROM born LEFT JOIN nearest USING (trace, process)
