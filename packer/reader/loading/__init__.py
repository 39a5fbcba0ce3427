"""What a Loader is made of: how mini-batches are read ahead, decoded in threads, and handed out.

cores      how many threads
sheets     memory for pictures, used again once nobody can see it
making     one mini-batch, step by step
pipeline   many of them at once, in threads of this process
remote     the same in a process of its own
prefetch   in order, a few ahead, to the device
"""
