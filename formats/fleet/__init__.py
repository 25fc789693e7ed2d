"""The summaries of a fleet of traces: the columns of a batch, where batches lie, and how they are written and checked."""
