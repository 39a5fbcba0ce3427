"""Packs written sample by sample, by a program of your own."""

from packer.writer.packwriter import PackWriter

__all__ = ["PackWriter"]
