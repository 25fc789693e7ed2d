"""What several exports use: stacks with values, text that is safe elsewhere, limits of size, the wire format of protobuf."""
