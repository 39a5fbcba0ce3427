"""Machines of a dask cluster that make shards."""
