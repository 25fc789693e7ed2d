-- Answers: which native functions are on stacks, and what did Python call?
-- Reads: native_frames
-- Columns:
--   trace, native, parent, callee, library, symbol
-- Order: trace, native
SELECT trace, native, parent, callee, library, symbol FROM native_frames ORDER BY trace, native
