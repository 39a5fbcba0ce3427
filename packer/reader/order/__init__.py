"""The order of samples: epochs, ranks, the position in an epoch, and states to resume from."""
