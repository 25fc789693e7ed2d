"""Questions about many traces: they are reduced to summaries once (:mod:`.index`), and asked by SQL over these."""
