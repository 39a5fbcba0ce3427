"""From a scanned source to a finished pack, in the order of the work.

planning/    labels, slots, batches and shards: everything decided before the first picture
shards/      one shard: its batches, its file, its state
workers/     processes of this machine that make batches
cluster/     machines of a dask cluster that make shards
transcode    one picture: from its file to its payload
tally        how many samples are packed and skipped
skips        the ledger of skipped files
lock         lock files of an output folder (`holder`: the process that holds one)
finish       completing a pack: indexes (`completion`), companion files of tar shards
             (`companions`), the pack's README (`card`), and last the manifest
restoring    making lost files of a complete pack again
"""
