-- Answers: to which cell (a host on one side) does each trace belong that is compared?
-- Reads: compared_traces
-- Columns:
--   trace: as in compared_traces
--   host: as in compared_traces
--   version: as in compared_traces
--   side: as in compared_traces
--   exposure: as in compared_traces
--   cell: number of the cell, from 0
--   part: number of the part of a cell that has one version, from 0
-- Order: none
SELECT trace, host, version, side, exposure, dense_rank() OVER (ORDER BY side, host) - 1 AS cell,
    dense_rank() OVER (ORDER BY side, host, version) - 1 AS part
FROM compared_traces
