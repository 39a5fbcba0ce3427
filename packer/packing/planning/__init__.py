"""Before the first shard: labels, the order of samples, what goes where, what must not change."""
