"""Make shards on the machines of a dask cluster."""
