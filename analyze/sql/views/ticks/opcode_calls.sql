-- Answers: which instructions are calls, and what does their (specialised) name say about the callee?
-- Names of CPython 3.10 to 3.15. CALL_INTRINSIC_n calls nothing that a program wrote. INSTRUMENTED_ names occur in a
-- program that sys.monitoring observes.
-- Reads: cpu_rows
-- Stored: yes
-- Columns:
--   opcode: name of the instruction, one row for each that occurs in a tick
--   opcode_call: none = no call; python = specialised for Python functions; c = specialised for C
--     functions, or (NON_PY) for everything but Python functions; generic
--   class_by_opcode: native if the instruction is a call, else python: how the Scalene papers tell the two apart in
--     threads that receive no signal (disassembly of the current instruction)
-- Order: none
WITH seen AS (
    SELECT opcode, replace(opcode, 'INSTRUMENTED_', '') AS name
    FROM (SELECT DISTINCT opcode FROM cpu_rows WHERE opcode IS NOT NULL)
)
SELECT opcode,
    CASE
        WHEN NOT regexp_matches(name, '^(PRE)?CALL') OR starts_with(name, 'CALL_INTRINSIC') THEN 'none'
        WHEN regexp_matches(name, '^CALL_(KW_|EX_)?(PY$|PY_|BOUND_METHOD)') THEN 'python'
        WHEN regexp_matches(name, '^(CALL_ALLOC_AND_ENTER_INIT|PRECALL_PYFUNC|PRECALL_BOUND_METHOD)') THEN 'python'
        WHEN regexp_matches(name, '^(PRE)?CALL_(BUILTIN|METHOD_DESC|NO_KW)') THEN 'c'
        WHEN regexp_matches(name, '^CALL_((KW_|EX_)?NON_PY|LEN|ISINSTANCE|LIST_APPEND|STR_1|TUPLE_1|TYPE_1)') THEN 'c'
        ELSE 'generic'
    END AS opcode_call,
    if(opcode_call = 'none', 'python', 'native') AS class_by_opcode
FROM seen
