-- Times as whole numbers of units of 2 ** -36 s (15 ps). Sums of up to 36 hours of them are exact, so they do not
-- depend on the order in which DuckDB's threads add them up (docs/design/analysis.md).

CREATE OR REPLACE TEMP MACRO units_per_s() AS 68719476736; -- 2 ** 36

CREATE OR REPLACE TEMP MACRO units_per_ns() AS 68.719476736;

-- A time in ns, rounded to a whole number of units, in seconds.
CREATE OR REPLACE TEMP MACRO exact_s(time_ns) AS round(time_ns * units_per_ns()) / units_per_s();
