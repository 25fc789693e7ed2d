-- Answers: what was each CPU tick doing: running Python bytecode, a builtin of the interpreter, or an extension?
-- By the rule of classified_ticks; native code = builtin + extension. Times are whole numbers of 2 ** -36 s (exact_s).
-- Reads: classified_ticks, thread_scale
-- Stored: no
-- Columns:
--   trace, t_ns, process, thread, stack, user_s, system_s, class, class_by_opcode, opcode, opcode_call, pc_class
--   pc_module, pc_offset, extension_module, extension_offset, has_python, gc, torn, system_only
--   module: module id of the native code: of the interrupted instruction if that is an extension's, else of the first
--     extension on the native stack, else of the interrupted instruction; NULL = it is in no known image
--   address [bytes]: ELF virtual address in that module (one less than a return address); NULL = in no known image
--   native
-- Order: none
SELECT trace, t_ns, process, thread, stack,
    exact_s(user_ns * coalesce(scale, 1)) AS user_s, exact_s(system_ns * coalesce(scale, 1)) AS system_s,
    CASE WHEN is_extension THEN 'extension' WHEN is_native THEN 'builtin' WHEN is_unclassified THEN 'unclassified'
        ELSE 'python' END AS class,
    class_by_opcode, opcode, opcode_call, pc_class, pc_module, pc_offset, extension_module, extension_offset,
    has_python, gc, torn, system_only, module, address, native
FROM classified_ticks
LEFT JOIN (SELECT trace, thread, scale FROM thread_scale) USING (trace, thread)
