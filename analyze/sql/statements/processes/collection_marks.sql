-- Answers: when did garbage collections end, of which generation, and how many at a time?
-- If there are more than 200 rows, those within a 66th of the time are joined.
-- Reads: collections, selection
-- Columns:
--   t_s [s]: when the last of them was observed, from the start of the recording
--   generation
--   collections: how many
-- Order: time, then generation; at most 200 rows
WITH marks AS (
    SELECT t_ns, unnest([0, 1, 2]) AS generation, unnest([generation0, generation1, generation2]) AS number
    FROM collections, selection
    WHERE is_selected(selection, t_ns, process)
), sized AS (
    SELECT *, if(count(*) OVER () > 200, t_ns // greatest((max(t_ns) OVER ()) // 65, 1), t_ns) AS piece
    FROM marks WHERE number > 0
)
SELECT max(t_ns) / 1e9 AS t_s, generation, sum(number)::BIGINT AS collections
FROM sized GROUP BY piece, generation ORDER BY t_s, generation
