-- Answers: in which library, and in which of its functions, does each native stack of a wait wait?
-- The innermost function counts that is not of libc, of the loader, or of another library of class support. If that is
-- the interpreter's, or one of the standard library's extension modules, Python itself waits.
-- Reads: libraries, native_frames, waits
-- Stored: yes
-- Columns:
--   trace
--   native: id of the native stack, as in waits
--   image: extension: a library; interpreter: Python itself, or its standard library; NULL = it was not found
--   library: name of the library (view libraries); NULL = image is not extension
--   symbol: its function; NULL = image is not extension, or the function has no name
--   is_guess: it was found by a search of the stack, so functions between it and the system call may be missing
-- Order: none
WITH RECURSIVE frames AS MATERIALIZED (
    SELECT f.trace, f.native, parent, f.library, symbol, gap, CASE
        WHEN image = 'interpreter' OR is_of_standard_library(path) THEN 'interpreter'
        WHEN image = 'extension' THEN image END AS image
    FROM native_frames f LEFT JOIN libraries b ON b.trace = f.trace AND b.module = f.module
), walked AS (
    SELECT trace, native, native AS at, false AS is_guess, 0 AS depth
    FROM (SELECT DISTINCT trace, native FROM waits WHERE native IS NOT NULL)
    UNION ALL
    SELECT w.trace, w.native, parent, is_guess OR gap, depth + 1
    FROM walked w JOIN frames f ON f.trace = w.trace AND f.native = w.at
    WHERE parent IS NOT NULL AND image IS NULL AND depth < 256
)
SELECT w.trace, w.native, image, if(image = 'extension', library, NULL) AS library,
    if(image = 'extension', symbol, NULL) AS symbol, is_guess
FROM walked w JOIN frames f ON f.trace = w.trace AND f.native = w.at
WHERE parent IS NULL OR image IS NOT NULL
