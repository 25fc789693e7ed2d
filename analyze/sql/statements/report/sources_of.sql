-- Answers: what is the text of these files?
-- Parameters:
--   files: list of file names, as in lines.file
-- Reads: sources
-- Columns:
--   trace, file
--   text: the text at the end of the recording
--   changed: the file was modified after the recording began
-- Order: file, then trace
SELECT trace, file, text, changed FROM sources WHERE list_contains($files, file) ORDER BY file, trace
