"""Name, sync, publish, open and map files; measure free space."""
