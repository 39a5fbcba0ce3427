"""Processes on this machine that make batches."""
