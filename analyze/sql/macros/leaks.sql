-- The leak rule (docs/design/leaks.md has its reasons). All of its numbers are here; queries call leak_rule('...'), and
-- analyze/leaks/rule.py reads them with the statement leak_rule.

CREATE OR REPLACE TEMP MACRO leak_rule(number) AS {
    'least_life_ns': 4000000000, -- a shorter process is not judged: its leaks look like its data
    'judged_share': 0.98, -- a process is judged when this share of its time is over
    'first_place': 10, -- evidence are allocations from this hundredth of the judged time on (before it is start-up) ...
    'end_place': 90, -- ... up to just before this one (later ones had no time to be freed)
    'late_place': 63, -- the last third of the evidence begins at this hundredth
    'least_probability': 0.95, -- least probability that the next allocation is never freed
    'least_survivors': 18, -- the fewest survivors that reach it
    'least_late': 2, -- least survivors in the last third
    'slices': 10, 'least_slices': 6, -- survivors come from so many slices of the time of the evidence
    'least_mean': 0.4, -- least mean place of the surviving bytes, as a share of the time of the evidence, ...
    'least_late_share': 1 / 6, -- ... and least share of the last third in them
    'deviations': 2.8, -- of few survivors, less is enough: what steady growth reaches within so many deviations
    'most_fall': 0.1, -- live bytes never fall by more than this share of what survived
    'least_share_of_growth': 0.01 -- least share in the growth of the process tree
}[number];

-- When something happened, in hundredths of the time from the start of the process until it is judged.
CREATE OR REPLACE TEMP MACRO judged_place(t_ns, start_ns, judged_ns) AS
    1e2 * (t_ns - start_ns) / (judged_ns - start_ns);

CREATE OR REPLACE TEMP MACRO is_evidence(place) AS
    place >= leak_rule('first_place') AND place < leak_rule('end_place');

-- The rule of succession: is the next allocation probably never freed? (laplace() in analyze/leaks/rule.py.)
CREATE OR REPLACE TEMP MACRO is_probably_kept(mallocs, frees) AS
    1 - (frees + 1) / (mallocs + 2) >= leak_rule('least_probability');

CREATE OR REPLACE TEMP MACRO is_mostly_kept(mallocs, frees) AS
    frees <= (1 - leak_rule('least_probability')) * mallocs;

CREATE OR REPLACE TEMP MACRO has_enough_survivors(survivors, late_survivors) AS
    survivors >= leak_rule('least_survivors') AND late_survivors >= leak_rule('least_late');
