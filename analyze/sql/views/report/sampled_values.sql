-- Answers: what was measured when, and for which stack: all metrics of the selection, as one list?
-- Sums over a metric are the totals of the report. What exports are made of.
-- Parameters: none (the table `selection` holds time window, processes and threads)
-- Columns:
--   trace: which trace, from 1
--   t_ns [ns]: when, from the start of the recording; of a wait: when it began
--   process: process id
--   thread: thread id
--   stack: stack id; NULL = no Python stack was there or could be read
--   metric: cpu, wait, allocated, live-at-peak or copies
--   part: of cpu: python, native or system; of wait: sleep, disk, runnable or gil; NULL for the others
--   library: of native time: name of the library (view libraries); NULL = code in no known image
--   symbol: of native time: function of the library; NULL = not known
--   value [s or bytes]: CPU time, waiting time, or estimated bytes
-- Order: none
WITH ticks AS (
    SELECT charged_ticks.* FROM charged_ticks, selection
    WHERE coalesce(t_ns >= from_ns, true) AND coalesce(t_ns < to_ns, true)
        AND (process_ids IS NULL OR list_contains(process_ids, process))
        AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
), blocks AS (
    SELECT a.trace, a.t_ns, process, thread, stack, alloc_bytes,
        if(a.t_ns <= peak_ns AND coalesce(end_t_ns > peak_ns, true), live_bytes, NULL) AS live_bytes
    FROM allocations a LEFT JOIN process_moments USING (trace, process), selection
    WHERE coalesce(a.t_ns >= from_ns, true) AND coalesce(a.t_ns < to_ns, true)
        AND (process_ids IS NULL OR list_contains(process_ids, process))
        AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
)
SELECT trace, t_ns, process, thread, stack, 'cpu' AS metric, 'python' AS part, NULL AS library, NULL AS symbol,
    user_s AS value
FROM ticks WHERE class = 'python' AND user_s > 0
UNION ALL BY NAME
SELECT t.trace, t_ns, process, thread, stack, 'cpu' AS metric, 'native' AS part, library,
    if(address < end_offset, name, NULL) AS symbol, user_s AS value
FROM ticks t
ASOF LEFT JOIN symbols s ON t.trace = s.trace AND t.module = s.module AND t.address >= s.start_offset
LEFT JOIN libraries l ON l.trace = t.trace AND l.module = t.module
WHERE t.class <> 'python' AND user_s > 0
UNION ALL BY NAME
SELECT trace, t_ns, process, thread, stack, 'cpu' AS metric, 'system' AS part, system_s AS value
FROM ticks WHERE system_s > 0
UNION ALL BY NAME
SELECT trace, t_ns, process, thread, stack, 'wait' AS metric, class AS part, wait_s AS value FROM selected_waits
WHERE wait_s IS NOT NULL
UNION ALL BY NAME
SELECT trace, t_ns, process, thread, stack, 'allocated' AS metric, alloc_bytes AS value FROM blocks
WHERE alloc_bytes > 0
UNION ALL BY NAME
SELECT trace, t_ns, process, thread, stack, 'live-at-peak' AS metric, live_bytes AS value FROM blocks
WHERE live_bytes > 0
UNION ALL BY NAME
SELECT trace, t_ns, process, thread, stack, 'copies' AS metric, bytes AS value FROM copies, selection
WHERE bytes IS NOT NULL AND coalesce(t_ns >= from_ns, true) AND coalesce(t_ns < to_ns, true)
    AND (process_ids IS NULL OR list_contains(process_ids, process))
    AND (thread_ids IS NULL OR list_contains(thread_ids, thread))
