"""What the first bytes of a coded picture say: its kind, size, orientation, colours."""
