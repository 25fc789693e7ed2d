-- Answers: how long did each stack, and each thread, wait in each piece of the time?
-- A wait counts in every piece that it touches, with the part of it that lies there.
-- Parameters:
--   origin_ns: start of the first piece
--   bin_ns: length of a piece
--   bins: number of pieces
-- Reads: selection, waits
-- Columns:
--   stack, thread, is_thread, bin
--   sleep_us [us]: blocked in a system call
--   disk_us [us]: uninterruptible
--   runnable_us [us]: ready to run, but without a CPU
--   gil_us [us]: waiting for the interpreter's lock
-- Order: none
WITH clipped AS (
    SELECT stack, thread, class, duration_ns, span_ns,
        greatest(t_ns, from_ns) - $origin_ns AS first_ns,
        least(t_ns + span_ns, to_ns) - $origin_ns AS last_ns
    FROM waits, selection
    WHERE is_selected(selection, t_ns, t_ns + span_ns, process, thread) AND has_labels(trace, stack)
), spread AS (
    SELECT *, unnest(range(
        least(greatest(first_ns // $bin_ns, 0), $bins - 1),
        least(greatest((last_ns - 1) // $bin_ns, first_ns // $bin_ns, 0), $bins - 1) + 1
    )) AS bin
    FROM clipped
), placed AS (
    SELECT stack, thread, class, bin, duration_ns / 1e3 * if(span_ns > 0, greatest(
        if(bin = $bins - 1, last_ns, least(last_ns, (bin + 1) * $bin_ns))
            - if(bin = 0, first_ns, greatest(first_ns, bin * $bin_ns)), 0) / span_ns, 1) AS wait_us
    FROM spread
)
SELECT stack, thread, grouping(stack) = 1 AS is_thread, bin,
    coalesce(sum(wait_us) FILTER (class = 'sleep'), 0) AS sleep_us,
    coalesce(sum(wait_us) FILTER (class = 'disk'), 0) AS disk_us,
    coalesce(sum(wait_us) FILTER (class = 'runnable'), 0) AS runnable_us,
    coalesce(sum(wait_us) FILTER (class = 'gil'), 0) AS gil_us
FROM placed GROUP BY GROUPING SETS ((stack, bin), (thread, bin))
