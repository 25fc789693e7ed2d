"""GPU samples: queries to the driver, a thread that makes them, and the processes that the answers belong to."""
