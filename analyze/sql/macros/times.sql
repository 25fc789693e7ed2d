-- Times as whole numbers of units of 2 ** -36 s (15 ps): 68719476736 of them are a second. Sums of up to 36 hours of
-- such times are exact, so they do not depend on the order in which DuckDB's threads add them up
-- (docs/design/analysis.md).

-- A time in ns, or a time in ns times a scale, rounded to a whole number of units, in seconds.
CREATE OR REPLACE TEMP MACRO exact_s(time_ns) AS round(time_ns * 68.719476736) / 68719476736,
(time_ns, scale) AS round(time_ns * (scale * 68.719476736)) / 68719476736;

-- A time in s, rounded to a whole number of units.
CREATE OR REPLACE TEMP MACRO rounded_s(time_s) AS round(time_s * 68719476736) / 68719476736;

-- The square of a time in s², rounded to a whole number of units of 2 ** -42 s²: the root of 1 ms² is then off by 0.06 ns
-- at most. Sums of up to 2,048 s² are exact.
CREATE OR REPLACE TEMP MACRO rounded_s2(square_s2) AS round(square_s2 * 4398046511104) / 4398046511104;
