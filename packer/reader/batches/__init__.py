"""From places in the order to mini-batches."""
