-- Answers: of which images does the trace hold symbols?
-- Parameters: none
-- Columns:
--   trace: which trace, from 1
--   module: module id
--   is_named: true
-- Order: none
SELECT DISTINCT trace, module, true AS is_named FROM symbols
