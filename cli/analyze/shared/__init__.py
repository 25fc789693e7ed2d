"""What the commands of scalene-analyze share: options, selections of samples, answers and output."""
