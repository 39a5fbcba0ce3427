"""Fixtures of this room's tests."""

from tests.materials import make_material
from tests.packs import build_pack, fake_pack, format_name

__all__ = ["build_pack", "fake_pack", "format_name", "make_material"]
