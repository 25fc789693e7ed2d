"""What the recorder samples from outside the program: resident sets, GPUs, waiting threads."""
