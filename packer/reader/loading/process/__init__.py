"""Mini-batches made by another process, and the memory that both processes share."""
