-- Answers: which locations are in the user's code?
-- Reads: locations, user_files
-- Stored: yes
-- Columns:
--   trace, id, file, function
--   first_line: first line of the function; 0 = unknown
--   line: line that was executing; if that is unknown, the first line of the function
--   number: number of the function, the same for all of its locations in all traces
-- Order: none
WITH chosen AS (
    SELECT trace, id, file, function, coalesce(first_line, 0) AS first_line,
        if(line > 0, line, coalesce(first_line, 0)) AS line
    FROM locations SEMI JOIN user_files USING (file)
), numbered AS (
    SELECT *, (row_number() OVER (ORDER BY file, function, first_line))::INTEGER AS number
    FROM (SELECT DISTINCT file, function, first_line FROM chosen)
)
SELECT c.*, number FROM chosen c JOIN numbered n ON c.file = n.file AND c.function IS NOT DISTINCT FROM n.function
    AND c.first_line = n.first_line
