"""What the analysis returns: records, amounts and curves."""
