-- Answers: which of the traces that were read are selected, and by what are their figures divided when traces are compared?
-- Parameters:
--   names: names of the labels that are asked for
--   values: of each of them the values that it may have
--   hosts: the hosts; empty = all
--   since_ns [ns]: the recording began at this time, since 1970, or later; NULL = any time
--   until_ns [ns]: it began before this time; NULL = any time
--   per: the text of a mark; NULL = figures are divided by hours
-- Reads: fleet_traces
-- Columns:
--   trace: as in fleet_traces
--   host: as in fleet_traces
--   version: the label version; NULL = there is none
--   day: the date of the start in UTC, as text (2026-11-28); NULL = unknown
--   exposure: the recorded hours, without pauses, or how often the mark was set; NULL = unknown
-- Order: none
SELECT trace, host, labels['version'] AS version, strftime(make_timestamp_ns(start_ns), '%Y-%m-%d') AS day,
    CASE WHEN $per IS NULL THEN coalesce(recorded_ns, wall_ns) / 3.6e12 ELSE coalesce(marks[$per::VARCHAR], 0)::DOUBLE END AS exposure
FROM fleet_traces
WHERE reason IS NULL AND (len($hosts) = 0 OR list_contains($hosts, host))
    AND ($since_ns IS NULL OR start_ns >= $since_ns) AND ($until_ns IS NULL OR start_ns < $until_ns)
    AND len(list_filter(range(len($names)), lambda n: coalesce(list_contains($values[n + 1], labels[$names[n + 1]]),
        false))) = len($names)
