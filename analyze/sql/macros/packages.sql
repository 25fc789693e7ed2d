-- Is a file one of the standard library's, or frozen into the interpreter?
CREATE OR REPLACE TEMP MACRO is_of_standard_library(file) AS
    NOT regexp_matches(file, '(?:site|dist)-packages/[^/]')
    AND regexp_matches(file, '(?:^|/)(?:lib(?:64)?/python3(?:\.\d+)?t?/|python3\d+\.zip/)|^<frozen ');

-- The package that a file belongs to: the top folder or module in site-packages, the module of the standard library;
-- else the file's name, which for a launcher is the installed program's.
CREATE OR REPLACE TEMP MACRO package_of(file) AS CASE
    WHEN regexp_matches(file, '(?:site|dist)-packages/[^/]')
        THEN regexp_extract(file, '.*(?:site|dist)-packages/([^/]+?)(?:\.py|/.*)?$', 1)
    WHEN is_of_standard_library(file)
        THEN regexp_extract(file, '(?:(?:^|/)lib(?:64)?/python3[^/]*/|\.zip/|^<frozen )([^/.>]+)', 1)
    ELSE regexp_extract(file, '[^/]*$') END;
