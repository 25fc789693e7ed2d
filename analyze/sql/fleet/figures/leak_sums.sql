-- Answers: which lines leak in the selected traces, how fast, and on how many hosts?
-- Notes: A line is the same in two traces as in figure_sums: its function may have moved.
-- Reads: fleet_figures, selected_traces
-- Columns:
--   file: as in fleet_figures
--   line: as in fleet_figures; where it stood on the last day
--   function: as in fleet_figures
--   first_line: as in fleet_figures; where it stood on the last day
--   text: as in fleet_figures
--   traces: in how many traces the line leaks
--   hosts: on how many hosts it does
--   mallocs: counts of the judged samples
--   frees: counts of the judged samples
--   mean_bytes_per_s: mean rate over these traces
--   most_bytes_per_s: the highest rate
--   rate_variance: square of the standard error of the mean, by sampling
--   live_at_end_bytes: what was alive at the ends together, and the square of its standard error
--   live_variance: what was alive at the ends together, and the square of its standard error
-- Order: the mean rate times the number of traces, descending, then file and line
WITH each AS (
    SELECT f.trace, host, day, file, line, function, first_line, text,
        max(CASE WHEN metric = 'bytes_per_s' THEN value END) AS rate,
        max(CASE WHEN metric = 'bytes_per_s' THEN variance END) AS rate_variance,
        max(CASE WHEN metric = 'mallocs' THEN value END) AS mallocs,
        max(CASE WHEN metric = 'frees' THEN value END) AS frees,
        max(CASE WHEN metric = 'live_at_end_bytes' THEN value END) AS live,
        max(CASE WHEN metric = 'live_at_end_bytes' THEN variance END) AS live_variance
    FROM fleet_figures f JOIN selected_traces s ON f.trace = s.trace
    WHERE scope = 'leak' GROUP BY f.trace, host, day, file, line, function, first_line, text
)
SELECT file, max_by(line, coalesce(day, '')) AS line, function, max_by(first_line, coalesce(day, '')) AS first_line,
    text, count(DISTINCT trace) AS traces, count(DISTINCT host) AS hosts,
    coalesce(sum(mallocs), 0) AS mallocs, coalesce(sum(frees), 0) AS frees,
    sum(rate) / count(DISTINCT trace) AS mean_bytes_per_s,
    max(rate) AS most_bytes_per_s, sum(rate_variance) / count(DISTINCT trace) / count(DISTINCT trace) AS rate_variance,
    coalesce(sum(live), 0) AS live_at_end_bytes, coalesce(sum(live_variance), 0) AS live_variance
FROM each WHERE rate IS NOT NULL GROUP BY file, function, text, line - first_line
ORDER BY sum(rate) DESC, file, line, function
