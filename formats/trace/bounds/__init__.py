"""What a trace may unfold to, decided from its metadata before any of it is unfolded."""
