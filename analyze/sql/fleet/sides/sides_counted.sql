-- Answers: how many traces are on the two sides?
-- Reads: after_traces, before_traces, compared_traces
-- Columns:
--   given: number of traces of both sides
--   taken: number of those that are compared
--   twice: number of those that are on both sides
-- Order: none
SELECT (SELECT count(*) FROM before_traces) + (SELECT count(*) FROM after_traces) AS given,
    (SELECT count(*) FROM compared_traces) AS taken,
    (SELECT count(*) FROM before_traces b JOIN after_traces a ON b.trace = a.trace) AS twice
