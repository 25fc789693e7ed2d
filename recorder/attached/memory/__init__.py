"""Records the memory of a running process: its main thread carries out commands of a library that its interpreter loads."""
