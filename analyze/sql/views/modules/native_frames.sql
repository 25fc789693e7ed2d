-- Answers: which functions are on the native stacks of ticks, and which of them did the Python code call?
-- The callee of a stack is the outermost function that does not merely pass a call on: not PyObject_Vectorcall,
-- cfunction_call, type_call or PyNumber_Multiply, but what they call. If only such functions are on the stack, there is
-- no callee: the interpreter worked for itself. Its functions without a name count as such. Nor is there one if the
-- outermost functions are missing. On a stack from the beginning of a thread (is_whole), no bytecode loop was found.
-- Reads: libraries, native_functions, symbols
-- Stored: yes
-- Columns:
--   trace
--   native: id of the function on its stack, as in cpu_rows
--   parent
--   module: module id; NULL = in no known image
--   offset [bytes]: ELF virtual address at which it starts; NULL = unknown
--   gap: functions between it and its parent, or outer ones, may be missing
--   library, image
--   symbol: the function's name, without the suffixes of parts that a compiler made (.isra.0, .cold); NULL = unknown
--   callee
--   is_setup: a function of the stack up to here makes, fills or clears the frame of a Python function that is called
--   is_for_arguments: its callee packs, unpacks or frees arguments of a call
--   is_call_itself: all functions of the stack up to here make a call or end it, whatever is called
--   is_for_loop: the outermost function frees an operand of the instruction, or handles an exception
--   is_unnamed: no callee was found up to here without passing a function of the interpreter that has no name
--   is_whole: the outermost function is the one in which the program or the thread begins
-- Order: none
WITH RECURSIVE named AS (
    SELECT n.trace, n.id AS native, n.parent, n.module, n.offset, coalesce(n.gap, false) AS gap,
        b.library, b.class AS image,
        coalesce(demangled, regexp_replace(s.name, '\.(isra|part|constprop|cold|lto_priv)\b.*$', '')) AS full_name,
        if(n.offset < s.end_offset, full_name, NULL) AS symbol,
        coalesce(image = 'interpreter' AND is_frame_setup(symbol), false) AS is_own_setup,
        coalesce(image = 'interpreter' AND symbol IS NULL, false) AS is_nameless,
        is_nameless OR coalesce(image = 'interpreter' AND is_passing_on(symbol), false) OR is_own_setup AS is_passing,
        coalesce(image = 'interpreter' AND is_for_arguments(symbol), false) AS is_helper,
        symbol IS NOT NULL AND (is_passing AND NOT is_own_setup AND NOT is_calling_c(symbol) OR is_checking(symbol)
            OR symbol = '__tls_get_addr') AS is_call,
        coalesce(is_freeing(symbol), false) AND NOT is_own_setup AS frees, is_beginning(symbol) IS TRUE AS begins,
        coalesce(image = 'interpreter' AND is_for_loop(symbol), false) AS is_loops
    FROM native_functions n
    ASOF LEFT JOIN symbols s ON n.trace = s.trace AND n.module = s.module AND n.offset >= s.start_offset
    LEFT JOIN libraries b ON b.trace = n.trace AND b.module = n.module
    WHERE n.id IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY n.trace, n.id) = 1
), called AS (
    SELECT trace, native, gap AS is_cut, if(is_passing OR gap, NULL, native) AS callee, is_own_setup AS is_setup,
        callee IS NOT NULL AND is_helper AS is_for_arguments, is_loops AND NOT gap AS is_for_loop,
        is_call AND NOT gap AS is_call_itself, is_nameless AS is_unnamed, frees, begins AS is_whole, 0 AS depth
    FROM named WHERE parent IS NULL
    UNION ALL
    SELECT n.trace, n.native, c.is_cut, coalesce(c.callee, if(n.is_passing OR c.is_cut, NULL, n.native)),
        c.is_setup OR n.is_own_setup AND NOT c.frees AND NOT c.is_whole,
        if(c.callee IS NULL AND NOT n.is_passing AND NOT c.is_cut, n.is_helper, c.is_for_arguments),
        c.is_for_loop, c.is_call_itself AND n.is_call, c.is_unnamed OR c.callee IS NULL AND n.is_nameless,
        c.frees OR n.frees, c.is_whole, c.depth + 1
    FROM called c JOIN named n ON n.trace = c.trace AND n.parent = c.native WHERE c.depth < 256
)
SELECT trace, native, parent, module, "offset", gap, library, image, symbol, callee,
    coalesce(is_setup, false) AS is_setup, coalesce(is_for_arguments, false) AS is_for_arguments,
    coalesce(is_call_itself, false) AS is_call_itself, coalesce(is_for_loop, false) AS is_for_loop,
    coalesce(is_unnamed, false) AS is_unnamed, coalesce(is_whole, false) AS is_whole
FROM named LEFT JOIN called USING (trace, native)
