-- Answers: did each CPU tick interrupt Python bytecode, a builtin of the interpreter, or an extension? Or is that open?
-- The rule uses the interrupted instruction, the functions on the native stack before the bytecode loop, and the opcode
-- of the innermost frame (docs/design/attribution.md). The first part of it that is true decides.
-- Reads: called_objects, cpu_rows, native_frames, opcode_calls, processes
-- Stored: no
-- Columns:
--   trace, t_ns, process, thread, stack
--   user_ns [ns]: user CPU time that the tick stands for, as recorded
--   system_ns [ns]: kernel CPU time that the tick stands for, as recorded
--   is_extension: its user CPU time was spent in an extension
--   is_unclassified: neither can be decided: the opcode is unknown, no stack was read, the build is free-threaded, or
--     the process was observed from outside
--   is_native: its user CPU time was spent in native code: an extension, or a builtin of the interpreter
--   is_open: one of these three may be true, as far as opcode and interrupted instruction tell without the stacks
--   class_by_opcode, opcode, opcode_call, pc_class, pc_module, pc_offset, extension_module, extension_offset
--   has_python, gc, torn, system_only, module, address, native
-- Order: none
SELECT trace, t_ns, process, thread, stack, user_ns, system_ns,
    coalesce(NOT has_python OR is_free_threaded IS NOT TRUE AND pc_class IS DISTINCT FROM 'unread'
        AND (pc_class IN ('extension', 'unknown') OR extension_module IS NOT NULL), false) AS is_extension,
    coalesce(has_python AND (is_free_threaded OR pc_class = 'unread') OR has_python AND opcode IS NULL
        AND (stack IS NOT NULL OR torn OR is_unread) AND pc_class IN ('interpreter', 'support', 'shim')
        AND NOT is_extension AND (is_setup OR is_for_loop) IS NOT TRUE, false) AS is_unclassified,
    (is_extension OR NOT coalesce(pc_class = 'eval' OR is_bytecode OR is_unclassified, false) AND (CASE
        WHEN is_setup OR is_for_loop THEN false
        WHEN frame_setup AND NOT tp_call AND NOT gap AND is_3_10 IS NOT TRUE THEN false
        WHEN is_unpacking AND is_for_arguments AND NOT (is_unnamed AND vectorcall) THEN false
        WHEN calls_c IS NOT NULL AND (is_unpacking AND has_no_callee OR tp_call AND NOT frame_setup
            OR is_call_itself AND NOT (tp_call AND frame_setup)) THEN calls_c
        WHEN is_c THEN NOT (is_any AND coalesce(tp_call AND frame_setup, false))
        WHEN is_generic AND is_3_10 THEN frame_setup IS DISTINCT FROM true
        WHEN tp_call THEN pc_class = 'support' AND frame_setup IS DISTINCT FROM true
        ELSE vectorcall OR (is_generic AND NOT eval_found) OR (is_unpacking AND NOT frame_setup)
    END)) IS TRUE AS is_native, -- of all ticks at once: a bare OR in a filter sorts them through its parts
    is_open, class_by_opcode, opcode, opcode_call, pc_class, pc_module, pc_offset, extension_module,
    extension_offset, has_python, gc, torn, system_only,
    if(pc_class = 'extension' OR extension_module IS NULL, pc_module, extension_module) AS module,
    if(pc_class = 'extension' OR extension_module IS NULL, pc_offset, extension_offset - (native IS NULL)::INTEGER)
        AS address,
    native
FROM (
    SELECT *, (has_python AND extension_module IS NULL AND opcode IS NOT NULL AND is_free_threaded IS NOT TRUE
        AND pc_class NOT IN ('extension', 'unknown', 'unread') AND (is_bytecode OR pc_class = 'eval')
        ) IS NOT TRUE AS is_open FROM cpu_rows
    LEFT JOIN (
        SELECT *, opcode_call IN ('none', 'python') AS is_bytecode, opcode_call = 'c' AS is_c,
            opcode_call = 'generic' AS is_generic, contains(opcode, '_NON_PY') AS is_any,
            opcode IN ('CALL_FUNCTION_EX', 'CALL_EX_NON_PY_GENERAL') AS is_unpacking FROM opcode_calls
    ) USING (opcode)
    LEFT JOIN (
        SELECT trace, process, bool_or(starts_with(python_version, '3.10.')) AS is_3_10,
            bool_or(NOT stacks) AS is_unread, bool_or(free_threaded) AS is_free_threaded
        FROM processes WHERE python_version IS NOT NULL GROUP BY trace, process
    ) USING (trace, process)
)
LEFT JOIN (
    SELECT trace, native, is_setup, is_for_arguments, is_for_loop, is_call_itself, is_unnamed, gap,
        callee IS NULL AS has_no_callee FROM native_frames
) USING (trace, native)
LEFT JOIN called_objects USING (trace, stack, opcode)
