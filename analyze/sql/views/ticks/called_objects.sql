-- Answers: are the objects that an instruction of a stack calls written in C, or in Python?
-- Work of _PyObject_MakeTpCall and PyObject_Call themselves looks the same for both, so the other ticks of the same
-- stack and instruction decide: those in a C function that was called, and those in code that makes or clears a frame,
-- or in a slot of a Python class. What makes instances of Python classes makes those of some types in C too, and a
-- function without a name may be of either kind: eight such ticks count as one, for Python and for C.
-- Reads: cpu_rows, native_frames
-- Stored: yes
-- Columns:
--   trace, stack, opcode
--   calls_c: more of these ticks were in C functions; where there are as many of both, or none, there is no row
-- Order: none
WITH votes AS (
    SELECT trace, stack, opcode,
        CASE WHEN is_checking OR is_call_itself THEN NULL
            WHEN type_call THEN if(tp_call AND frame_setup, -1, if(vectorcall AND NOT tp_call, 8, NULL))
            WHEN tp_call AND frame_setup OR is_setup AND callee IS NULL THEN -8
            WHEN vectorcall AND NOT tp_call AND NOT frame_setup THEN if(f.native IS NULL OR is_calling_c
                OR callee IS NOT NULL AND NOT is_setup AND NOT is_for_arguments, 8, 1) END AS vote
    FROM cpu_rows LEFT JOIN (
        SELECT *, is_calling_c(symbol) AS is_calling_c, coalesce(is_checking(symbol), false) AS is_checking
        FROM native_frames
    ) f USING (trace, native)
    WHERE vectorcall OR tp_call OR is_setup
)
SELECT trace, stack, opcode, sum(vote) > 0 AS calls_c FROM votes GROUP BY trace, stack, opcode HAVING sum(vote) <> 0
