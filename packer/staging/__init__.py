"""Copies of packs on the node that trains: which files, who makes them, who may use them."""
