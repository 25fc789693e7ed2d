-- Answers: what was each CPU tick doing: running Python bytecode, a builtin of the interpreter, or an extension?
-- As classified_ticks says; native code = builtin + extension.
-- Times are whole numbers of 2 ** -36 s (15 ps), so that sums are exact, in whatever order they are added up.
-- Parameters: none
-- Columns:
--   trace: which trace, from 1
--   t_ns [ns]: when, from the start of the recording
--   process: process id
--   thread: thread id
--   stack: stack id; NULL = no Python stack was there or could be read
--   user_s [s]: user CPU time that the tick stands for, scaled so that threads add up to their exact CPU time
--   system_s [s]: kernel CPU time that the tick stands for, scaled alike
--   class: python, builtin or extension: what the user time was spent in
--   class_by_opcode: python or native by the rule of the Scalene papers (opcode_calls); NULL = no opcode
--   opcode: instruction of the innermost frame; NULL = no frame, or not read
--   opcode_call: what the instruction calls: none, python, c, generic; NULL = no opcode
--   pc_class: image of the interrupted instruction: eval, interpreter, support, extension, shim, unknown
--   pc_module: module id of the interrupted instruction; NULL = in no known image
--   pc_offset [bytes]: ELF virtual address in that module; NULL = in no known image
--   extension_module: module id of the first extension on the native stack; NULL = none
--   extension_offset [bytes]: ELF virtual address in that module; NULL = none
--   has_python: the thread has a Python thread state
--   gc: a garbage collection was running
--   torn: the frames could not be read, the stack is missing
--   system_only: from the timer that carries kernel time only
--   module: module id of the native code: that of the interrupted instruction where it is an extension's, else that of
--     the first extension on the native stack, else that of the instruction after all; NULL = no known image
--   address [bytes]: ELF virtual address in that module (of a return address: one less); NULL = no known image
-- Order: none
SELECT trace, t_ns, process, thread, stack,
    round(user_ns * coalesce(scale, 1) * 68.719476736) / 68719476736 AS user_s, -- 2 ** 36 / 1e9, 2 ** 36
    round(system_ns * coalesce(scale, 1) * 68.719476736) / 68719476736 AS system_s,
    CASE WHEN is_extension THEN 'extension' WHEN is_native THEN 'builtin' ELSE 'python' END AS class,
    class_by_opcode, opcode, opcode_call, pc_class, pc_module, pc_offset, extension_module, extension_offset,
    has_python, gc, torn, system_only, module, address
FROM classified_ticks
LEFT JOIN (SELECT trace, thread, scale FROM thread_scale) USING (trace, thread)
