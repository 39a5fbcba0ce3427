"""Job scripts for SLURM to copy; `packer examples --all DIR` copies them."""
