-- Answers: how much GPU time and memory is charged to each line and function? One row is for no line.
-- Reads: gpu_charges, stack_owners
-- Columns:
--   level: line or function
--   file
--   line: line number; NULL = the row is of a function
--   function: qualified name; of a line where several share it: one of them
--   first_line
--   gpu_s [s]: GPU time
--   gpu_variance: square of the standard error of gpu_s: for each stay, a sixth of the period that the driver averages
--   gpu_peak_bytes
--   gpu_mean_bytes [bytes]: mean of that memory over the observations; NULL = no observation
--   gpu_short: it never stayed at the GPU for as long as the period over which the driver averages
-- Order: level, file, line, function, first line
WITH charged AS (
    SELECT c.*, file, line, function, first_line FROM gpu_charges c LEFT JOIN stack_owners USING (trace, stack)
), keyed AS MATERIALIZED (
    SELECT *, 'line' AS level, file || ':' || line AS key FROM charged
    UNION ALL BY NAME
    SELECT * EXCLUDE (line), NULL::INTEGER AS line, 'function' AS level,
        concat_ws(':', file, function, first_line) AS key
    FROM charged WHERE file IS NOT NULL
), turns AS (
    SELECT *, dense_rank() OVER (PARTITION BY level, trace, process ORDER BY t_ns) AS number FROM keyed WHERE gpu_s > 0
), met AS (
    SELECT level, key, trace, process, number, any_value(t_ns) AS t_ns, max(step_ns) AS step_ns,
        max(window_ns) AS window_ns
    FROM turns GROUP BY level, key, trace, process, number
), begun AS (
    SELECT *, coalesce(number - lag(number) OVER of_key > 1 OR t_ns - lag(t_ns) OVER of_key > window_ns, true) AS is_new
    FROM met WINDOW of_key AS (PARTITION BY level, key, trace, process ORDER BY number)
), stays AS (
    SELECT level, key, sum(step_ns) AS stay_ns, max(window_ns) AS window_ns FROM (
        SELECT *, sum(is_new::INTEGER) OVER (PARTITION BY level, key, trace, process ORDER BY number) AS stay FROM begun
    ) GROUP BY level, key, trace, process, stay
), of_keys AS (
    SELECT level, key, sum((window_ns / 6e9) ** 2) AS gpu_variance, max(stay_ns / window_ns) < 0.99 AS gpu_short
    FROM stays GROUP BY level, key
), sums AS (
    SELECT level, key, any_value(file) AS file, any_value(line) AS line, min(function) AS function,
        min(first_line) AS first_line, sum(gpu_s) AS gpu_s, max(memory_bytes) AS gpu_peak_bytes,
        avg(memory_bytes) AS gpu_mean_bytes
    FROM keyed GROUP BY level, key
)
SELECT s.level, file, line, function, first_line, gpu_s, coalesce(gpu_variance, 0) AS gpu_variance, gpu_peak_bytes,
    gpu_mean_bytes, coalesce(gpu_short, false) AS gpu_short
FROM sums s LEFT JOIN of_keys k ON s.level = k.level AND s.key IS NOT DISTINCT FROM k.key
ORDER BY ALL
