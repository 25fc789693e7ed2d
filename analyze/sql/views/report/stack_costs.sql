-- Answers: what does the selection cost, by the stack on which it ran?
-- Ticks count on their own stack, that of a thread of a library on the stack that the library worked for. With
-- stack_labels, these are the costs of each label: unlike those of a line, they count also where no line is the user's.
-- Reads: allocation_figures, charged_ticks, copies, gpu_charges, selected_task_waits, selected_waits, selection
-- Stored: no
-- Columns:
--   trace
--   stack: stack id; NULL = no Python stack was there or could be read
--   cpu_s, wait_s, suspended_s, alloc_bytes, live_at_end_bytes, copy_bytes
--   gpu_s [s]: time of a GPU that is charged to the stack
-- Order: none
WITH parts AS (
    SELECT trace, own_stack AS stack, sum(user_s + system_s) AS cpu_s FROM charged_ticks, selection
    WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, own_stack)
    GROUP BY trace, own_stack
    UNION ALL BY NAME SELECT trace, stack, sum(wait_s) AS wait_s FROM selected_waits GROUP BY trace, stack
    UNION ALL BY NAME
    SELECT trace, stack, sum(suspended_s) AS suspended_s FROM selected_task_waits GROUP BY trace, stack
    UNION ALL BY NAME SELECT trace, stack, alloc_bytes, live_at_end_bytes FROM allocation_figures
    UNION ALL BY NAME
    SELECT trace, stack, sum(bytes) AS copy_bytes FROM copies, selection
    WHERE is_selected(selection, t_ns, process, thread) AND has_labels(trace, stack)
    GROUP BY trace, stack
    UNION ALL BY NAME SELECT trace, stack, sum(gpu_s) AS gpu_s FROM gpu_charges GROUP BY trace, stack
)
SELECT trace, stack, coalesce(sum(cpu_s), 0) AS cpu_s, coalesce(sum(wait_s), 0) AS wait_s,
    coalesce(sum(suspended_s), 0) AS suspended_s, coalesce(sum(alloc_bytes), 0) AS alloc_bytes,
    coalesce(sum(live_at_end_bytes), 0) AS live_at_end_bytes, coalesce(sum(copy_bytes), 0)::BIGINT AS copy_bytes,
    coalesce(sum(gpu_s), 0) AS gpu_s
FROM parts GROUP BY trace, stack
