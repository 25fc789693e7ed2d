-- Answers: which stacks are the CPU ticks of libraries' threads charged to?
-- To the stacks of those Python threads of the process that were inside native code at that moment (native_spans), in
-- equal parts, or to those on which these threads were started (started_stacks). If there was none, it has no stack.
-- Reads: cpu_ticks, library_threads, native_spans, started_stacks
-- Stored: part
-- Columns:
--   trace, t_ns, process, thread
--   stack: stack id; NULL = no Python thread was inside native code
--   own_stack
--   ticks: as in charged_ticks
--   user_s [s]: as in charged_ticks
--   system_s, class
--   is_parallel: the tick is charged to a stack
--   gc, module, address, native
-- Order: none
WITH native AS MATERIALIZED (
    SELECT n.*, coalesce(started_on, n.stack) AS charged
    FROM native_spans n LEFT JOIN started_stacks USING (trace, thread, stack)
), buckets AS (
    SELECT trace, max(bucket_ns) AS bucket_ns FROM native GROUP BY trace
), helpers AS MATERIALIZED (
    SELECT row_number() OVER () AS tick, trace, t_ns, t_ns // bucket_ns AS bucket, process, thread, user_s, system_s,
        class, gc, module, address, native
    FROM cpu_ticks SEMI JOIN library_threads USING (trace, thread) LEFT JOIN buckets USING (trace)
), spans AS (
    SELECT *, unnest(range(from_ns // bucket_ns, to_ns // bucket_ns + 1)) AS bucket FROM native
), served AS (
    SELECT tick, charged, spans.stack, count(*) OVER (PARTITION BY tick) AS served,
        row_number() OVER (PARTITION BY tick ORDER BY spans.thread, spans.stack) AS number
    FROM helpers h JOIN spans ON h.trace = spans.trace AND h.process = spans.process
        AND h.bucket = spans.bucket AND h.t_ns >= from_ns AND h.t_ns < to_ns
)
SELECT trace, t_ns, process, thread, charged AS stack, stack AS own_stack, if(coalesce(number, 1) = 1, 1, 0) AS ticks,
    rounded_s(user_s / coalesce(served, 1)) AS user_s, rounded_s(system_s / coalesce(served, 1)) AS system_s, class,
    charged IS NOT NULL AS is_parallel, gc, module, address, native
FROM helpers LEFT JOIN served USING (tick)
