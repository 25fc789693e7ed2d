"""The control socket of a recording: the protocol, its server, and its client."""
