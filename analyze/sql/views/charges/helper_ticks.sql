-- Answers: which stacks are the CPU ticks of libraries' threads charged to?
-- To the stacks of those Python threads of the process that were inside native code at that moment (native_spans), in
-- equal parts. If there was none, the tick has no stack.
-- Reads: cpu_ticks, library_threads, native_spans
-- Stored: part
-- Columns:
--   trace, t_ns, process, thread
--   stack: stack id; NULL = no Python thread was inside native code
--   ticks: as in charged_ticks
--   user_s [s]: as in charged_ticks
--   system_s, class
--   is_parallel: the tick is charged to a stack
--   gc, module, address, native
-- Order: none
WITH native AS MATERIALIZED (
    SELECT * FROM native_spans
), buckets AS (
    SELECT trace, max(bucket_ns) AS bucket_ns FROM native GROUP BY trace
), helpers AS MATERIALIZED (
    SELECT row_number() OVER () AS tick, trace, t_ns, t_ns // bucket_ns AS bucket, process, thread, user_s, system_s,
        class, gc, module, address, native
    FROM cpu_ticks SEMI JOIN library_threads USING (trace, thread) LEFT JOIN buckets USING (trace)
), spans AS (
    SELECT *, unnest(range(from_ns // bucket_ns, to_ns // bucket_ns + 1)) AS bucket FROM native
), served AS (
    SELECT tick, spans.stack, count(*) OVER (PARTITION BY tick) AS served,
        row_number() OVER (PARTITION BY tick ORDER BY spans.thread, spans.stack) AS number
    FROM helpers h JOIN spans ON h.trace = spans.trace AND h.process = spans.process
        AND h.bucket = spans.bucket AND h.t_ns >= from_ns AND h.t_ns < to_ns
)
SELECT trace, t_ns, process, thread, stack, if(coalesce(number, 1) = 1, 1, 0) AS ticks,
    rounded_s(user_s / coalesce(served, 1)) AS user_s, rounded_s(system_s / coalesce(served, 1)) AS system_s, class,
    stack IS NOT NULL AS is_parallel, gc, module, address, native
FROM helpers LEFT JOIN served USING (tick)
