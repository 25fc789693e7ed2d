-- Answers: which name does each native image have in reports?
-- Of an extension module: its path below site-packages, dist-packages, lib-dynload or the standard library, up to the
-- first dot (numpy/_core/_multiarray_umath). Of any other library: its file name up to ".so", without the parts that
-- packaging adds: a hash of eight digits and what follows it, a release (-r0), a version (-2.31), a suffix 64_, 64_p or
-- _ (libopenblas).
-- Reads: modules
-- Stored: no
-- Columns:
--   trace, module
--   library: the name
--   class: interpreter, support (libc and the like), extension or shim
--   path: path of the file
-- Order: none
WITH names AS (
    SELECT *, regexp_extract(path, '[^/]*$') AS file,
        regexp_extract(path, '.*/(?:(?:site|dist)-packages|lib-dynload|python3\.\d+t?)/(.*)$', 1) AS inside
    FROM modules
)
SELECT trace, id AS module,
    CASE
        WHEN regexp_matches(file, '\.(cpython-\d+[a-z]*-|abi3\.)')
            THEN regexp_replace(if(inside = '', file, inside), '\.[^/]*$', '')
        WHEN contains(file, '.so') THEN regexp_replace(regexp_replace(regexp_replace(regexp_replace(
            regexp_extract(file, '^(.*?)\.so', 1),
            '(-[0-9a-f]{8})+(\..*)?$', ''), '-\d+(\.\d+)+$', ''), '-r\d+$', ''), '(64_p?|_)$', '')
        ELSE file
    END AS library, class, path
FROM names
