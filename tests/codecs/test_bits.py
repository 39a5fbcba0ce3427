from __future__ import annotations

import pytest

from packer import registry
from packer.codecs import load_codec
from packer.codecs._bits import photograph_bits
from packer.settings.options import ImageOptions


def test_better_quality_needs_more_bits() -> None:
    bits = [photograph_bits(quality) for quality in range(1, 101)]
    assert bits == sorted(bits)
    assert photograph_bits(90) == 2.2


@pytest.mark.parametrize(
    ("codec", "options", "bits"),
    [
        ("jpeg", ImageOptions(), 2.2),
        ("jpeg", ImageOptions(subsampling="4:4:4"), 2.75),
        ("webp", ImageOptions(subsampling="4:4:4"), 1.32),
        ("png", ImageOptions(quality=1), 13.0),
        ("raw", ImageOptions(quality=1), 24.0),
    ],
)
def test_each_codec_estimates_its_own_size(codec: str, options: ImageOptions, bits: float) -> None:
    assert load_codec(codec).bits_per_pixel(options) == pytest.approx(bits)
    assert codec in registry.own_names("codecs")
