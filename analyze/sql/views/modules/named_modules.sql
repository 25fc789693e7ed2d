-- Answers: of which images does the trace hold symbols?
-- Reads: symbols
-- Stored: yes
-- Columns:
--   trace, module
--   is_named: true
-- Order: none
SELECT DISTINCT trace, module, true AS is_named FROM symbols
