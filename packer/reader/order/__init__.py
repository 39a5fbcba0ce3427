"""Which samples come when: epochs, ranks, progress, and the state to go on from."""
