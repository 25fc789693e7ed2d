-- Answers: what was the footprint of the process tree at each moment at which it is known to have changed?
-- Taken from the counters that the processes reported (counted_footprint); in traces that hold every allocation, from
-- the allocations themselves (exact_footprint).
-- The time window of the selection is not applied: figures inside the window depend on what was before it.
-- Reads: counted_footprint, exact_footprint, exact_traces
-- Stored: yes
-- If exact_traces is empty: counted_footprint
-- Columns:
--   trace, t_ns, is_gone, footprint_bytes, python_footprint_bytes
-- Order: none
SELECT * FROM counted_footprint ANTI JOIN exact_traces USING (trace)
UNION ALL BY NAME
SELECT trace, t_ns, false AS is_gone, footprint_bytes, python_footprint_bytes FROM exact_footprint
