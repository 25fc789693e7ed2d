-- Answers: how did the memory charged to each line, and to each function, grow over time?
-- Of several traces, only that in which it grew or shrank most counts; of equal ones, the first.
-- Reads: memory_samples, selection, stack_owners
-- Columns:
--   file, line, function, first_line
--   of_line: the sample is in the trace that counts for the line
--   of_function: the sample is in the trace that counts for the function; one of the two is true at least
--   t_ns
--   net_bytes [bytes]: allocated minus freed up to that sample, since the one before
-- Order: time, then bytes
WITH samples AS (
    SELECT trace, file, line, function, first_line, t_ns, coalesce(net_bytes, 0) AS net_bytes
    FROM memory_samples JOIN stack_owners USING (trace, stack), selection
    WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, stack)
), sums AS (
    SELECT trace, file, line, function, first_line, sum(net_bytes) AS grown FROM samples GROUP BY ALL
), of_lines AS (
    SELECT file, line, first(trace ORDER BY abs(grown) DESC, trace) AS trace
    FROM (SELECT trace, file, line, sum(grown) AS grown FROM sums GROUP BY ALL) GROUP BY ALL
), of_functions AS (
    SELECT file, function, first_line, first(trace ORDER BY abs(grown) DESC, trace) AS trace
    FROM (SELECT trace, file, function, first_line, sum(grown) AS grown FROM sums GROUP BY ALL) GROUP BY ALL
)
SELECT s.file, s.line, s.function, s.first_line, s.trace = l.trace AS of_line, s.trace = f.trace AS of_function, t_ns,
    net_bytes
FROM samples s JOIN of_lines l ON l.file = s.file AND l.line = s.line
JOIN of_functions f ON f.file = s.file AND f.function IS NOT DISTINCT FROM s.function AND f.first_line = s.first_line
WHERE of_line OR of_function
ORDER BY t_ns, net_bytes
