"""From the order of an epoch to mini-batches: read, skip damage, decode, collate."""
