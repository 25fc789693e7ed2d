-- Which samples are asked for: conditions on the one row of the table `selection`, which the caller names in FROM.
-- Where a restriction is NULL, DuckDB's optimizer knows it from the statistics of the table and drops the condition
-- together with the columns that it reads. Keep `asked.x IS NULL OR ...`: with `coalesce(..., true)` alone, or a CASE,
-- every row is compared. A row of unknown time is in every window.

CREATE OR REPLACE TEMP MACRO is_in_window(asked, t_ns) AS
    (asked.from_ns IS NULL OR coalesce(t_ns >= asked.from_ns, true))
    AND (asked.to_ns IS NULL OR coalesce(t_ns < asked.to_ns, true));

-- The same for what lasts from start_ns to end_ns: some of it is in the window.
CREATE OR REPLACE TEMP MACRO overlaps_window(asked, start_ns, end_ns) AS
    (asked.from_ns IS NULL OR coalesce(end_ns >= asked.from_ns, true))
    AND (asked.to_ns IS NULL OR coalesce(start_ns < asked.to_ns, true));

CREATE OR REPLACE TEMP MACRO is_of_processes(asked, process) AS
    asked.process_ids IS NULL OR list_contains(asked.process_ids, process);

CREATE OR REPLACE TEMP MACRO is_of_threads(asked, thread) AS
    asked.thread_ids IS NULL OR list_contains(asked.thread_ids, thread);

CREATE OR REPLACE TEMP MACRO is_selected(asked, t_ns, process, thread) AS
    is_in_window(asked, t_ns) AND is_of_processes(asked, process) AND is_of_threads(asked, thread);

-- A moment, or the start of the window if that is later; a moment, or the end of the window if that is earlier.
CREATE OR REPLACE TEMP MACRO not_before_window(asked, t_ns) AS greatest(t_ns, coalesce(asked.from_ns, t_ns));

CREATE OR REPLACE TEMP MACRO not_after_window(asked, t_ns) AS least(t_ns, coalesce(asked.to_ns, t_ns));
