"""Copy packs to the node that trains: choose the files, copy them once, and share the copy."""
