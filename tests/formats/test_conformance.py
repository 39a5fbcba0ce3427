"""Runs the conformance tests on every format in packer/formats; a new file is picked up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from packer import registry, testing
from packer.types import NO_LABEL, Field, Sample

FORMATS = registry.own_names("formats")
each_format = pytest.mark.parametrize("format_name", FORMATS)


class TestFormats(testing.FormatSuite):
    @pytest.fixture(params=FORMATS)
    def name(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def alone(self, alone: Callable[..., Any]) -> Callable[..., Any]:
        """That of conftest.py: the format's own library."""
        return alone


_field_names = st.sampled_from(["image", "extra", "more"])
_sample = st.tuples(
    st.integers(NO_LABEL, 299),
    st.dictionaries(_field_names, st.binary(max_size=3000), max_size=3),
    st.binary(max_size=30),
)


@each_format
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=st.lists(st.lists(_sample, max_size=4), max_size=5))
def test_any_samples(
    tmp_path_factory: pytest.TempPathFactory, format_name: str, drawn: Any
) -> None:
    """Whatever the batches, fields and payloads: every payload is where the layout says."""
    folder = tmp_path_factory.mktemp("any")
    fields = (
        Field("image", "bytes", "jpg"),
        Field("label", "label", "cls"),
        Field("extra", "bytes", "bin"),
        Field("more", "bytes", "more.txt"),
    )
    slot = 0
    batches: list[list[Sample]] = []
    for rows in drawn:
        batches.append([])
        for label, payloads, path in rows:
            batches[-1].append(Sample(slot, path, label, 1, 1, payloads))
            slot += 1
    writer = registry.load("formats", format_name).Writer(folder / "shard", fields, one_size=False)
    for batch in batches:
        writer.add_batch(batch)
    layout = writer.close()
    content = (folder / "shard").read_bytes()
    (folder / "shard").unlink()
    samples = [sample for batch in batches for sample in batch]
    for number, sample in enumerate(samples):
        for name in ("image", "extra", "more"):
            offset = int(layout.field_offset[name][number])
            size = int(layout.field_size[name][number])
            payload = sample.payloads.get(name)
            assert (content[offset : offset + size] if offset >= 0 else None) == payload
    first = 0
    for batch, start, size in zip(batches, layout.batch_offset, layout.batch_bytes, strict=True):
        for number in range(first, first + len(batch)):
            for name in ("image", "extra", "more"):
                offset = layout.field_offset[name][number]
                assert offset < 0 or start <= offset <= start + size
        first += len(batch)


def test_every_format_has_its_own_extension() -> None:
    extensions = [registry.load("formats", name).EXTENSION for name in FORMATS]
    assert {"tar", "lmdb", "hdf5"} <= set(FORMATS)
    assert len(set(extensions)) == len(extensions)
