-- Of a path, what lies behind the last folder of installed files that `rest` follows: group 1 is that folder, group 2 the
-- first one of `rest`. '' = there is none.
CREATE OR REPLACE TEMP MACRO installed(file, rest, number) AS regexp_extract(file,
    '(?:^|.*/)((?:site|dist)-packages|lib(?:64)?/python3[^/]*|python3\d+\.zip)/+' || rest, number);

-- Is a file one of the standard library's, or frozen into the interpreter?
CREATE OR REPLACE TEMP MACRO is_of_standard_library(file) AS starts_with(file, '<frozen ')
    OR installed(file, '[^/]', 1) <> '' AND NOT ends_with(installed(file, '[^/]', 1), '-packages');

-- The package that a file belongs to: the top folder or module in site-packages, the module of the standard library;
-- else the file's name, which for a launcher is the installed program's.
CREATE OR REPLACE TEMP MACRO package_of(file) AS coalesce(
    nullif(regexp_extract(file, '^<frozen ([^.>]+)', 1), ''),
    if(starts_with(file, '<'), file, NULL),
    nullif(installed(file, '(?:lib-dynload/+)?(.[^/.]*)[^/]*$', 2), ''),
    nullif(installed(file, '(?:lib-dynload/+)?([^/]+)/', 2), ''),
    nullif(regexp_extract(file, '[^/]*$'), ''), file);
