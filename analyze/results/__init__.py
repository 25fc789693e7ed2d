"""Results of the analysis: frozen records by subject, and the reduction of curves."""
