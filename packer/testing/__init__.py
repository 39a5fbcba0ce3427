"""Conformance tests for codecs, formats and sources, packer's own and those of plug-ins.

A plug-in proves itself with one short class in its own test suite:

    from packer.testing import CodecSuite

    class TestZpix(CodecSuite):
        NAME = "zpix"

pytest collects the tests of the base class. Needs pytest.
"""

from __future__ import annotations

from packer.installing import install_only

try:
    import pytest
except ModuleNotFoundError as error:
    if error.name != "pytest":
        raise
    raise ModuleNotFoundError(
        f"packer.testing needs pytest, which is not installed ({install_only('pytest')})",
        name="pytest",
    ) from None

# Before they are imported: else a failed assertion would not show its values.
pytest.register_assert_rewrite(
    "packer.testing.codecs",
    "packer.testing.formats",
    "packer.testing.shards",
    "packer.testing.sources",
)

from packer.testing.codecs import CodecSuite  # noqa: E402
from packer.testing.formats import FormatSuite  # noqa: E402
from packer.testing.shards import Shard, Stored  # noqa: E402
from packer.testing.sources import SourceSuite  # noqa: E402

__all__ = ["CodecSuite", "FormatSuite", "Shard", "SourceSuite", "Stored"]
