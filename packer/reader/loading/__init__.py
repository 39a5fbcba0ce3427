"""How a Loader makes mini-batches ahead of the training loop.

cores      how many threads
sheets     memory for pictures, used again once nobody can see it
pipeline   many mini-batches at once, in threads of this process
process/   the same in a process of its own
prefetch   in order, a few ahead, to the device
"""
