-- Answers: which native functions are on stacks, and what did Python call?
-- Reads: native_frames
-- Columns:
--   native, parent, callee, library, symbol
-- Order: native
SELECT native, parent, callee, library, symbol FROM native_frames ORDER BY native
