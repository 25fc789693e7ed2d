"""The folder of a recording, ``OUT.spool/``, and the trace beside it: names, files, creation and removal."""
