"""What a pack is on disk, and how it is opened: manifest, index, shards, payloads."""
