-- Answers: from when to when is each process looked at, and at which moments are its allocations judged?
-- Leaks are judged at 98 % of a process's time, or where its interpreter begins to take itself apart if that is earlier
-- (docs/design/leaks.md). A process of less than 4 s is too short to tell its leaks from its data.
-- Reads: alloc_rows, memory_peaks, processes, selection, settings
-- Stored: yes
-- Columns:
--   trace, process
--   start_ns [ns]: when it started, not before the window
--   judged_ns [ns]: when what is alive counts as survived; NULL = too short, or its end is not known
--   peak_ns [ns]: the peak of the process tree; NULL = the process was not there, or no peak is known
-- Order: none
WITH finals AS (
    SELECT trace, process, min(t_ns + lifetime_ns) AS final_ns FROM alloc_rows WHERE at_exit GROUP BY trace, process
), walls AS (
    SELECT trace, any_value(try_cast(value AS BIGINT)) AS wall_ns FROM settings WHERE name = 'wall_ns' GROUP BY trace
), lives AS (
    SELECT trace, process, t_ns, end_ns, not_before_window(selection, t_ns) AS start_ns,
        CASE WHEN coalesce(end_ns, wall_ns, final_ns) IS NOT NULL
            THEN not_after_window(selection, coalesce(end_ns, wall_ns)) END AS stop_ns, final_ns
    FROM processes LEFT JOIN walls USING (trace) LEFT JOIN finals USING (trace, process), selection
    WHERE is_of_processes(selection, process)
)
SELECT trace, process, start_ns,
    CASE WHEN least(stop_ns, final_ns) - start_ns >= leak_rule('least_life_ns')
        THEN least(start_ns + (leak_rule('judged_share') * (stop_ns - start_ns))::BIGINT, final_ns) END AS judged_ns,
    if(peak.t_ns BETWEEN lives.t_ns AND coalesce(end_ns, peak.t_ns), peak.t_ns, NULL) AS peak_ns
FROM lives LEFT JOIN memory_peaks peak USING (trace)
