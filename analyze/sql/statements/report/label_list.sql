-- Answers: what did the code with each label cost?
-- Parameters:
--   names: names of labels: rows differ in the values of these alone; NULL = of all labels
-- Reads: stack_costs, stack_labels
-- Columns:
--   labels: NAME=VALUE of each of these labels, by name; empty = it had none of them
--   cpu_s, wait_s, suspended_s, alloc_bytes, live_at_end_bytes, copy_bytes
--   gpu_s [s]: time of GPUs
-- Order: labels
WITH labelled AS (
    SELECT trace, stack, list(name || '=' || "value" ORDER BY name || '=' || "value") AS labels FROM stack_labels
    WHERE $names::VARCHAR[] IS NULL OR list_contains($names::VARCHAR[], name) GROUP BY trace, stack
)
SELECT coalesce(labels, []) AS labels, sum(cpu_s) AS cpu_s, sum(wait_s) AS wait_s, sum(suspended_s) AS suspended_s,
    sum(alloc_bytes) AS alloc_bytes, sum(live_at_end_bytes) AS live_at_end_bytes,
    sum(copy_bytes)::BIGINT AS copy_bytes, sum(gpu_s) AS gpu_s
FROM stack_costs LEFT JOIN labelled USING (trace, stack)
GROUP BY ALL ORDER BY labels
