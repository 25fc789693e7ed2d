-- Answers: which labels had the code of each stack (scalene_trace.recorder.label)?
-- A row for each label; stacks without labels are absent.
-- Reads: stacks
-- Stored: no
-- Columns:
--   trace, stack
--   name: name of the label
--   value: its value
-- Order: none
SELECT trace, stack, split_part(label, '=', 1) AS name, substr(label, strpos(label, '=') + 1) AS "value"
FROM (SELECT trace, stack, unnest(labels) AS label FROM stacks) WHERE strpos(label, '=') > 1
