-- Answers: when does each process start, and at which moments are its allocations judged?
-- Leaks are judged shortly before the end of the process, or when its interpreter begins to finalize if that is earlier
-- (judged_share of leak_rule). In a process that lives less than least_life_ns, leaks look like data: it is not judged.
-- Reads: alloc_rows, memory_peaks, processes, selection, settings
-- Stored: yes
-- Columns:
--   trace, process
--   start_ns [ns]: when it started, not before the start of the window
--   judged_ns [ns]: what is alive at this moment has survived; NULL = the process is too short, or its end is unknown
--   peak_ns [ns]: when the footprint of the process tree was highest; NULL = the process did not exist then, or unknown
-- Order: none
WITH finals AS (
    SELECT trace, process, min(t_ns + lifetime_ns) AS final_ns FROM alloc_rows WHERE at_exit GROUP BY trace, process
), walls AS (
    SELECT trace, any_value(try_cast(value AS BIGINT)) AS wall_ns FROM settings WHERE name = 'wall_ns' GROUP BY trace
), lives AS (
    SELECT trace, process, t_ns, end_ns, greatest(t_ns, from_ns) AS start_ns,
        CASE WHEN coalesce(end_ns, wall_ns, final_ns) IS NOT NULL
            THEN least(coalesce(end_ns, wall_ns), to_ns) END AS stop_ns, final_ns
    FROM processes LEFT JOIN walls USING (trace) LEFT JOIN finals USING (trace, process), selection
    WHERE is_selected(selection, process)
)
SELECT trace, process, start_ns,
    CASE WHEN least(stop_ns, final_ns) - start_ns >= leak_rule('least_life_ns')
        THEN least(start_ns + (leak_rule('judged_share') * (stop_ns - start_ns))::BIGINT, final_ns) END AS judged_ns,
    if(peak.t_ns BETWEEN lives.t_ns AND coalesce(end_ns, peak.t_ns), peak.t_ns, NULL) AS peak_ns
FROM lives LEFT JOIN memory_peaks peak USING (trace)
