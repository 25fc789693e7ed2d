-- Answers: what was the footprint of the process tree at each moment at which it is known to have changed?
-- Of what the processes' counters told (counted_footprint), or, where every allocation was recorded, of the allocations
-- themselves (exact_footprint).
-- Parameters: none (`selection` holds the processes; its time window is not applied: the window needs what was before)
-- Columns:
--   trace: which trace, from 1
--   t_ns [ns]: when, from the start of the recording
--   is_gone: the row holds for after the end of the processes that ended at this moment
--   footprint_bytes [bytes]: allocated minus freed, all processes
--   python_footprint_bytes [bytes]: the part of it that went through Python's allocators
-- Order: none
SELECT * FROM counted_footprint ANTI JOIN exact_traces USING (trace)
UNION ALL BY NAME
SELECT trace, t_ns, false AS is_gone, footprint_bytes, python_footprint_bytes FROM exact_footprint
