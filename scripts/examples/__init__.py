"""Training scripts to copy; `packer examples` lists and prints them."""
