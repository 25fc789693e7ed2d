-- Which samples are asked for: conditions on the one row of the table `selection`, which the caller names in FROM.
-- Where a restriction is NULL, DuckDB's optimizer knows it from the statistics of the table and drops the condition
-- together with the columns that it reads. Keep `asked.x IS NULL OR ...`: with `coalesce(..., true)` alone, or a CASE,
-- every row is compared. A row of unknown time is in every window. Each macro costs a statement whenever a trace is
-- opened, so these are variants of two, by the number of arguments.

-- A moment is in the time window; a part of what lasts from start_ns to end_ns is.
CREATE OR REPLACE TEMP MACRO is_in_window(asked, t_ns) AS
    (asked.from_ns IS NULL OR coalesce(t_ns >= asked.from_ns, true))
    AND (asked.to_ns IS NULL OR coalesce(t_ns < asked.to_ns, true)),
(asked, start_ns, end_ns) AS
    (asked.from_ns IS NULL OR coalesce(end_ns >= asked.from_ns, true))
    AND (asked.to_ns IS NULL OR coalesce(start_ns < asked.to_ns, true));

-- A process is asked for; so is the moment, the thread, or the time from start_ns to end_ns.
CREATE OR REPLACE TEMP MACRO is_selected(asked, process) AS
    asked.process_ids IS NULL OR list_contains(asked.process_ids, process),
(asked, t_ns, process) AS
    is_in_window(asked, t_ns) AND (asked.process_ids IS NULL OR list_contains(asked.process_ids, process)),
(asked, t_ns, process, thread) AS
    is_in_window(asked, t_ns) AND (asked.process_ids IS NULL OR list_contains(asked.process_ids, process))
    AND (asked.thread_ids IS NULL OR list_contains(asked.thread_ids, thread)),
(asked, start_ns, end_ns, process, thread) AS
    is_in_window(asked, start_ns, end_ns) AND (asked.process_ids IS NULL OR list_contains(asked.process_ids, process))
    AND (asked.thread_ids IS NULL OR list_contains(asked.thread_ids, thread));

CREATE OR REPLACE TEMP MACRO is_of_threads(asked, thread) AS
    asked.thread_ids IS NULL OR list_contains(asked.thread_ids, thread);

-- The stack has the labels that are asked for. Where there are some, analyze/trace/selection.py replaces this macro by one that
-- looks the stack up: a lookup in every query would cost time where nothing is asked for.
CREATE OR REPLACE TEMP MACRO has_labels(of_trace, of_stack) AS true;
