-- Answers: which traces are compared, on which side, and by what are their figures divided?
-- Notes: Traces of unknown hosts, and those without exposure, are left out.
-- Reads: after_traces, before_traces
-- Columns:
--   trace: as in selected_traces
--   host: as in selected_traces
--   version: as in selected_traces
--   side: 0 = before, 1 = after
--   exposure: as in selected_traces
-- Order: none
SELECT trace, host, version, 0 AS side, exposure FROM before_traces WHERE host IS NOT NULL AND exposure > 0
UNION ALL
SELECT trace, host, version, 1 AS side, exposure FROM after_traces WHERE host IS NOT NULL AND exposure > 0
