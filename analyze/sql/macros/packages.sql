-- Where a file belongs to: site-packages or dist-packages, the folder or archive of the standard library (the last such
-- folder in the path), frozen; '' = elsewhere.
CREATE OR REPLACE TEMP MACRO place_of(file) AS if(starts_with(file, '<frozen '), 'frozen',
    regexp_extract(file, '(?:^|.*/)((?:site|dist)-packages|lib(?:64)?/python3[^/]*|python3\d+\.zip)/+[^/]', 1));

-- Is a file one of the standard library's, or frozen into the interpreter?
CREATE OR REPLACE TEMP MACRO is_of_standard_library(file) AS
    place_of(file) <> '' AND NOT ends_with(place_of(file), '-packages');

-- What follows the last of these folders, up to the next slash.
CREATE OR REPLACE TEMP MACRO top_of(file, pattern) AS
    regexp_extract(file, '(?:^|.*/)(?:(?:site|dist)-packages|lib(?:64)?/python3[^/]*|python3\d+\.zip)/+'
        || '(?:lib-dynload/+)?' || pattern, 1);

-- The package that a file belongs to: the top folder or module in site-packages, the module of the standard library;
-- else the file's name, which for a launcher is the installed program's.
CREATE OR REPLACE TEMP MACRO package_of(file) AS coalesce(nullif(CASE place_of(file)
    WHEN 'frozen' THEN regexp_extract(file, '^<frozen ([^.>]+)', 1)
    WHEN '' THEN if(starts_with(file, '<'), file, regexp_extract(file, '[^/]*$'))
    ELSE coalesce(nullif(top_of(file, '(.[^/.]*)[^/]*$'), ''), top_of(file, '([^/]+)/')) END, ''), file);
