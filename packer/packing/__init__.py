"""From a scanned source to a finished pack, in the order of the work.

labels: class and split of every candidate (pure). plan: slots, batches, shards (pure). job: all
that one conversion is decided by. batch: one batch of candidates becomes samples, in a worker
process. pool: batches over all cores, in order. shard: one shard and its index, published together.
state: OUT/.packer, what an interrupted run goes on from. lock: who may write to an output folder.
finish: split indexes, ledger, manifest last.
"""
