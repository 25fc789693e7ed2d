-- Answers: which threads and stacks are GPU time and memory charged to, moment by moment?
-- To the threads of the process that were nearest to the GPU at that moment (rank of gpu_states), in equal parts. So a
-- line that waits for the GPU is charged with the work that it waits for, whatever other threads do in the meantime. If
-- no thread is known, the moment is charged to no stack.
-- Reads: gpu_moments, gpu_states, selection
-- Stored: no
-- Columns:
--   trace, t_ns
--   process: process id; NULL = unknown
--   thread: thread id; NULL = no thread is known
--   stack: stack id; NULL = no thread is known, or it had no Python stack
--   step_ns, window_ns
--   gpu_s [s]: GPU time that is charged to the stack
--   memory_bytes [bytes]: GPU memory of the process, all of it on each row; NULL = the row is about utilisation
-- Order: none
WITH moments AS (
    SELECT row_number() OVER () AS moment, m.* FROM gpu_moments m, selection
    WHERE is_in_window(selection, t_ns)
), states AS MATERIALIZED (FROM gpu_states),
lives AS (SELECT trace, process, thread, min(from_ns) AS from_ns, max(to_ns) AS to_ns FROM states GROUP BY ALL),
pairs AS (
    SELECT moment, m.trace, lives.process, lives.thread, m.t_ns
    FROM moments m JOIN lives ON m.trace = lives.trace AND coalesce(m.process = lives.process, true)
        AND m.t_ns >= lives.from_ns AND m.t_ns < lives.to_ns
), met AS (
    SELECT moment, p.process, p.thread, stack, rank
    FROM (SELECT *, unnest(['call', 'wait', 'tick']) AS source FROM pairs) p
    ASOF JOIN states s ON p.trace = s.trace AND p.process = s.process AND p.thread = s.thread
        AND p.source = s.source AND p.t_ns >= s.from_ns
    WHERE p.t_ns < s.to_ns
), of_threads AS (
    SELECT moment, process, thread, min(rank) AS rank, arg_min(stack, (rank, stack)) AS stack
    FROM met GROUP BY moment, process, thread
), ranked AS (
    FROM of_threads QUALIFY rank = min(rank) OVER (PARTITION BY moment)
), nearest AS (SELECT *, count(*) OVER (PARTITION BY moment) AS number FROM ranked)
SELECT trace, t_ns, coalesce(n.process, m.process) AS process, thread, stack, step_ns, window_ns,
    gpu_s / coalesce(number, 1) AS gpu_s, memory_bytes
FROM moments m LEFT JOIN nearest n USING (moment), selection
WHERE is_selected(selection, coalesce(n.process, m.process))
    AND is_of_threads(selection, thread) AND has_labels(trace, stack)
