"""Make batches in several processes or threads of this machine."""
