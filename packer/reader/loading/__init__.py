"""How a Loader makes mini-batches ahead of the training loop.

    cores      number of threads
    sheets     memory for pictures, used again once no tensor shows it
    pipeline   makes several mini-batches at once, in threads of this process
    process/   the same in a process of its own
    prefetch   delivers mini-batches in order, a few ahead of the loop
    device     copies them to a GPU

`packer.reader.loader.Loader` puts these together.
"""
