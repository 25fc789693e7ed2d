"""The control socket of a recording: JSON lines over a Unix socket, the recorder's server and the command line's client."""
