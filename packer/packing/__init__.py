"""From a scanned source to a finished pack, in the order of the work.

planning/    labels, slots, batches and shards: all that is decided before the first picture
shards/      one shard: its batches, its file, what is kept of it
workers/     processes of this machine that make batches
cluster/     machines of a dask cluster that make shards
transcode    one picture: from the source's bytes to the codec's
tally        how many samples are packed and skipped
skips        the ledger of skipped files
lock         who may write to an output folder (`holder`: who holds a lock)
finish       what makes a folder a pack: indexes (`completion`), companion files of tar shards
             (`companions`), the pack's README (`card`), and last the manifest
restoring    making lost files of a complete pack again
"""
