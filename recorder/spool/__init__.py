"""The spool from the recorder's side: the file that is kept ahead of the program, and how it is emptied."""
