"""Files: how they are named, made, synced, published, opened, mapped; the space around them."""
