-- Answers: which traces are compared by day, and by what are their figures divided?
-- Notes: Traces of unknown hosts or days, and those without exposure, are left out.
-- Reads: selected_traces
-- Columns:
--   trace: as in selected_traces
--   host: as in selected_traces
--   version: as in selected_traces
--   side: number of the day, from 0, of those with traces
--   name: the day
--   exposure: as in selected_traces
-- Order: none
SELECT trace, host, version, dense_rank() OVER (ORDER BY day) - 1 AS side, day AS name, exposure
FROM selected_traces WHERE host IS NOT NULL AND exposure > 0 AND day IS NOT NULL
