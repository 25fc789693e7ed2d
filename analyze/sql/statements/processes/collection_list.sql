-- Answers: which garbage collections were noticed, when and in which thread?
-- Parameters: none (the table `selection` holds time window and processes)
-- Columns:
--   t_ns [ns]: when they were noticed, from the start of the recording
--   process: process id
--   thread: thread id of the thread that noticed
--   generation: 0 = the youngest alone, 1 = the two younger ones, 2 = full
--   collections: how many ended since the row before
-- Order: time, then process, generation
WITH counted AS (
    SELECT t_ns, process, thread, unnest([0, 1, 2]) AS generation,
        unnest([generation0, generation1, generation2]) AS collections
    FROM collections, selection
    WHERE coalesce(t_ns >= from_ns, true) AND coalesce(t_ns < to_ns, true)
        AND (process_ids IS NULL OR list_contains(process_ids, process))
)
FROM counted WHERE collections > 0 ORDER BY t_ns, process, generation
