-- Answers: what was each Python thread doing when, and how near is that to the GPU?
-- A wait lasts from its start to its end. A CPU tick stands for the time closer to it than to the thread's other ticks,
-- at most two CPU intervals away. CUDA calls that copy or wait for the device count if they took half of their span.
-- Reads: cpu_rows, device_copies, device_syncs, modules, settings, waits
-- Stored: no
-- Columns:
--   trace, process, thread, stack, from_ns, to_ns
--   rank: 0 = in such a CUDA call; 1 = in code of CUDA, or waiting with a stack that had ticks in such code; 2 = any
--     other time of a thread that uses CUDA; 3 = another thread that sleeps or waits for a disk; 4 = anything else
--   source: call, wait or tick
-- Order: none
WITH intervals AS (
    SELECT trace, greatest(any_value(try_cast(value AS BIGINT)), 1) AS interval_ns
    FROM settings WHERE name = 'cpu_interval_ns' GROUP BY trace
), cuda AS (
    SELECT trace, id FROM modules WHERE regexp_matches(path,
        '/lib(cu(da|dart|blas|dnn|fft|rand|solver|sparse|pti)|nccl|nvrtc|nvJitLink|nvidia-|torch_cuda|c10_cuda)[^/]*$'
        || '|/(cupy|cupy_backends|jax_cuda[^/]*|jaxlib/cuda|xla_cuda[^/]*)/[^/]*\.so$')
), ticks AS (
    SELECT trace, process, thread, stack, t_ns, coalesce(interval_ns, 10000000) AS interval_ns,
        coalesce((trace, pc_module) IN (FROM cuda), false) OR coalesce((trace, extension_module) IN (FROM cuda), false)
            AS is_cuda
    FROM cpu_rows LEFT JOIN intervals USING (trace)
), halves AS (
    SELECT *, coalesce((t_ns - lag(t_ns) OVER life) // 2, 2 * interval_ns) AS before_ns,
        coalesce((lead(t_ns) OVER life - t_ns + 1) // 2, 2 * interval_ns) AS after_ns
    FROM ticks WINDOW life AS (PARTITION BY trace, process, thread ORDER BY t_ns, stack)
), calls AS (
    SELECT trace, process, thread, stack, t_ns, span_ns, duration_ns FROM device_syncs
    UNION ALL SELECT trace, process, thread, stack, t_ns, span_ns, duration_ns FROM device_copies
), users AS (
    SELECT trace, process, thread FROM ticks WHERE is_cuda UNION SELECT trace, process, thread FROM calls
), places AS (SELECT DISTINCT trace, process, thread, stack FROM ticks WHERE is_cuda AND stack IS NOT NULL)
SELECT trace, process, thread, stack, t_ns - least(before_ns, 2 * interval_ns) AS from_ns,
    t_ns + least(after_ns, 2 * interval_ns) AS to_ns,
    CASE WHEN is_cuda THEN 1 WHEN (trace, process, thread) IN (FROM users) THEN 2 ELSE 4 END AS rank, 'tick' AS source
FROM halves WHERE stack IS NOT NULL
UNION ALL
SELECT trace, process, thread, stack, t_ns AS from_ns, t_ns + span_ns AS to_ns,
    CASE WHEN class IN ('sleep', 'disk') AND (trace, process, thread, stack) IN (FROM places) THEN 1
        WHEN (trace, process, thread) IN (FROM users) THEN 2 WHEN class IN ('sleep', 'disk') THEN 3 ELSE 4 END AS rank,
    'wait' AS source
FROM waits WHERE stack IS NOT NULL
UNION ALL
SELECT trace, process, thread, stack, t_ns AS from_ns, t_ns + span_ns AS to_ns, 0 AS rank, 'call' AS source
FROM calls WHERE stack IS NOT NULL AND 2 * duration_ns >= span_ns
