-- Answers: which native functions asked for the memory that stayed alive, on lines that may leak?
-- Reads: allocations, leak_candidates, native_frames, selection, stack_owners
-- Columns:
--   trace, file, line, called_native
--   live_bytes [bytes]: alive at the end of the process, estimated
-- Order: live_bytes, descending; then by called_native
SELECT trace, file, line, a.native AS called_native, sum(live_bytes) AS live_bytes
FROM allocations a JOIN stack_owners USING (trace, stack) SEMI JOIN leak_candidates USING (trace, file, line)
SEMI JOIN (SELECT trace, native FROM native_frames WHERE callee IS NOT NULL AND NOT is_whole) f USING (trace, native),
    selection
WHERE end_t_ns IS NULL AND family <> 'arenas' AND is_selected(selection, t_ns, process, thread)
    AND has_labels(trace, stack)
GROUP BY ALL
ORDER BY live_bytes DESC NULLS LAST, called_native
