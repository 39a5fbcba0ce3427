"""Read and write the files of a pack: manifest, index, shards, payloads."""
