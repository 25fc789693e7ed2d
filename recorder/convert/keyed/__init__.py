"""Tables with one value or row for each key, a process or a thread, of which a long recording has very many."""
