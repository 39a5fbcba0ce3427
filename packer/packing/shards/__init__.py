"""One shard: reading ahead, making its batches, writing it, and what is kept of it."""
