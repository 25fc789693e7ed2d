-- Answers: at which lines of the user's were threads held up, and by what?
-- A thread that waits for work or for other threads (a queue, a pool, an event loop, a condition, join) is idle, which
-- holds nothing up: such waits do not count. They are known by the modules of the standard library that the line calls.
-- Waits for the CPU and for the interpreter's lock are left out too: where a thread waits for these is chance.
-- Reads: locations, selected_waits, settings, stack_owners, stacks, user_frames, waiting_places
-- Columns:
--   file, line, function, first_line
--   cause: lock, sleep, events, child, input, output, connection, disk or other
--   library: the library that waited there for more than half of the time; NULL = none, or Python itself
--   is_guess: not for more than half of it without the stacks that were searched (waiting_places)
--   threads: how many waited there
--   wait_s [s]: how long they waited, inside the window
-- Order: wait_s, descending; then file, line, cause
WITH held_up AS (
    SELECT trace, thread, stack, wait_s, library, if(is_guess, 0, wait_s) AS sure_s, CASE
        WHEN class = 'disk' THEN 'disk'
        WHEN call = 'futex' THEN 'lock'
        WHEN call IN ('nanosleep', 'clock_nanosleep') THEN 'sleep'
        WHEN call IN ('poll', 'select', 'epoll_wait', 'pselect6', 'ppoll', 'epoll_pwait', 'epoll_pwait2') THEN 'events'
        WHEN call IN ('wait4', 'waitid') THEN 'child'
        WHEN call IN ('read', 'pread64', 'readv', 'preadv', 'recvfrom', 'recvmsg', 'recvmmsg') THEN 'input'
        WHEN call IN ('write', 'pwrite64', 'writev', 'pwritev', 'sendto', 'sendmsg') THEN 'output'
        WHEN call IN ('connect', 'accept', 'accept4') THEN 'connection'
        ELSE 'other' END AS cause
    FROM (
        SELECT w.*, library, is_guess, syscall_name_on(syscall, coalesce(value, 'x86_64')) AS call
        FROM selected_waits w LEFT JOIN waiting_places p ON p.trace = w.trace AND p.native = w.native
        LEFT JOIN settings s ON s.trace = w.trace AND s.name = 'machine'
        WHERE class IN ('sleep', 'disk')
    )
), owned AS (
    SELECT trace, stack, min(depth) AS depth FROM user_frames
    SEMI JOIN held_up USING (trace, stack) GROUP BY trace, stack
), called AS (
    SELECT trace, stack, unnest(locations[:depth - 1]) AS id FROM stacks JOIN owned USING (trace, stack)
), idle AS (
    SELECT DISTINCT c.trace, c.stack FROM called c JOIN locations l ON l.trace = c.trace AND l.id = c.id
    WHERE is_of_standard_library(file) AND (
        package_of(file) IN ('queue', 'concurrent', 'multiprocessing', 'selectors', 'asyncio')
        OR package_of(file) = 'threading'
            AND function IN ('Condition.wait', 'Event.wait', 'Thread.join', 'wait', 'join'))
), placed AS (
    SELECT trace, thread, file, line, function, first_line, cause, wait_s, library,
        sum(wait_s) OVER (PARTITION BY file, line, cause, library) AS library_s,
        sum(sure_s) OVER (PARTITION BY file, line, cause, library) AS sure_s
    FROM held_up ANTI JOIN idle USING (trace, stack) JOIN stack_owners USING (trace, stack)
)
SELECT file, line, min(function) AS function, min(first_line) AS first_line, cause,
    if(2 * max(library_s) FILTER (library IS NOT NULL) > sum(wait_s),
        arg_max(library, (library_s, library)) FILTER (library IS NOT NULL), NULL) AS library,
    coalesce(2 * arg_max(sure_s, (library_s, library)) FILTER (library IS NOT NULL) <= sum(wait_s), false) AS is_guess,
    count(DISTINCT (trace, thread)) AS threads, sum(wait_s) AS wait_s
FROM placed
GROUP BY file, line, cause
ORDER BY wait_s DESC, file, line, cause
