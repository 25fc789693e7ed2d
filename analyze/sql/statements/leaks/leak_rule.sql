-- Answers: what are the numbers of the leak rule?
-- Reads: none
-- Columns:
--   first_place: evidence are allocations from this hundredth of the judged time on
--   end_place: up to just before this hundredth
--   late_place: hundredth at which the last third of the evidence begins
--   least_probability: least probability that the next allocation is never freed
--   least_late: least survivors in the last third
--   slices: number of slices of the time of the evidence
--   least_slices: number of them that survivors come from at least
--   least_mean: least mean place of the surviving bytes, as a share of the time of the evidence
--   least_late_share: least share of the last third in the surviving bytes
--   deviations: standard deviations by which few survivors may miss what steady growth reaches
--   most_fall: live bytes never fall by more than this share of what survived
--   least_share_of_growth: least share in the growth of the process tree
-- Order: one row
SELECT leak_rule('first_place') AS first_place, leak_rule('end_place') AS end_place,
    leak_rule('late_place') AS late_place, leak_rule('least_probability')::DOUBLE AS least_probability,
    leak_rule('least_late') AS least_late, leak_rule('slices') AS slices, leak_rule('least_slices') AS least_slices,
    leak_rule('least_mean')::DOUBLE AS least_mean, leak_rule('least_late_share')::DOUBLE AS least_late_share,
    leak_rule('deviations')::DOUBLE AS deviations, leak_rule('most_fall')::DOUBLE AS most_fall,
    leak_rule('least_share_of_growth')::DOUBLE AS least_share_of_growth
