"""Headers of picture files: kind, size, orientation, colours."""
