-- Answers: what is the text of these files?
-- Parameters:
--   files: list of file names, as in lines.file
-- Columns:
--   file: file name
--   text: the text at the end of the recording
--   changed: the file was modified after the recording began
-- Order: file
SELECT file, text, changed FROM sources WHERE list_contains($files, file) ORDER BY file
