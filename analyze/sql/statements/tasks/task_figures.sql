-- Answers: where are asyncio tasks and greenlets suspended, by their names, coroutines and lines of the user's code?
-- Names that differ only in numbers are joined: `worker-1` and `worker-2` are `worker-*`.
-- Reads: locations, selected_task_waits, stack_owners, stacks
-- Columns:
--   name: name of the tasks, with `*` for numbers; NULL = it could not be read
--   coroutine: qualified name of the outermost coroutine; NULL = the stack could not be read
--   file: file of the innermost await in the user's code; NULL = there is none
--   line: line number of that await
--   function: qualified name of the function it is in
--   first_line
--   tasks: number of tasks that were observed suspended there (estimated if one stood for several)
--   suspended_s [s]: time in which they were suspended there, added up
-- Order: suspended time, descending; then name, coroutine, file and line
WITH outermost AS (
    SELECT stacks.trace, stacks.stack, function AS coroutine
    FROM stacks JOIN locations ON locations.trace = stacks.trace AND locations.id = stacks.locations[-1]
), of_task AS (
    SELECT trace, stack, task, regexp_replace(any_value(name), '[0-9]+', '*', 'g') AS name,
        sum(suspended_s * tasks) / nullif(sum(suspended_s), 0) AS tasks, sum(suspended_s) AS suspended_s
    FROM selected_task_waits GROUP BY trace, stack, task
), of_line AS (
    SELECT trace, task, name, coroutine, file, line, function, first_line, max(tasks) AS tasks,
        sum(suspended_s) AS suspended_s
    FROM of_task LEFT JOIN outermost USING (trace, stack) LEFT JOIN stack_owners USING (trace, stack)
    GROUP BY ALL
)
SELECT name, coroutine, file, line, function, first_line, round(coalesce(sum(tasks), 0))::BIGINT AS tasks,
    sum(suspended_s) AS suspended_s
FROM of_line GROUP BY name, coroutine, file, line, function, first_line
ORDER BY suspended_s DESC, name, coroutine, file, line
