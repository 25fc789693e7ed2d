-- Answers: which garbage collections were observed, when and in which thread?
-- Reads: collections, selection
-- Columns:
--   t_ns, process, thread, generation
--   collections: how many ended since the row before
-- Order: time, then process, generation
WITH counted AS (
    SELECT t_ns, process, thread, unnest([0, 1, 2]) AS generation,
        unnest([generation0, generation1, generation2]) AS collections
    FROM collections, selection
    WHERE is_selected(selection, t_ns, process)
)
FROM counted WHERE collections > 0 ORDER BY t_ns, process, generation
