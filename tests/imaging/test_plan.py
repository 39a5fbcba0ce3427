"""One plan a picture: what it decides, and that it is made once."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

from packer.codecs import load_codec
from packer.errors import ImageError
from packer.imaging.heads.head import Head
from packer.imaging.plan import plan_picture
from packer.packing.transcode import transcode
from packer.settings.options import ImageOptions
from packer.types import Pixels

_JPEG = Head("jpeg", 640, 480, mode="ycc", coding="baseline")


def test_a_plan_needs_no_codec() -> None:
    plan = plan_picture(_JPEG, ImageOptions(size=(60, 60)))
    assert (plan.geometry.size, plan.divisor) == ((80, 60), 4)
    assert not plan.keeps
    assert not plan.four_bytes


@pytest.mark.parametrize(
    ("head", "options"),
    [
        (dataclasses.replace(_JPEG, orientation=6), ImageOptions()),
        (dataclasses.replace(_JPEG, mode="cmyk"), ImageOptions()),
        (_JPEG, ImageOptions(reencode=True)),
        (_JPEG, ImageOptions(size=(64, 64))),
        (_JPEG, ImageOptions(size=(64, 64), mode="crop", upscale=False)),
        (_JPEG, ImageOptions(size=(900, 900), mode="pad", upscale=False)),
        (dataclasses.replace(_JPEG, kind="png", mode="rgb", coding=""), ImageOptions()),
    ],
)
def test_only_what_needs_no_change_is_kept(head: Head, options: ImageOptions) -> None:
    codec = load_codec("jpeg")
    assert plan_picture(_JPEG, ImageOptions(), codec).keeps
    assert not plan_picture(head, options, codec).keeps


@pytest.mark.parametrize(
    "options",
    [
        ImageOptions(),
        ImageOptions(size=(40, 40), filter="nearest"),
        ImageOptions(size=(40, 40), exact_decode=True),
    ],
)
def test_exact_pixels_are_decoded_at_full_scale(options: ImageOptions) -> None:
    assert plan_picture(_JPEG, options).divisor == 1
    assert plan_picture(_JPEG, ImageOptions(size=(40, 40))).divisor == 4


def test_another_size_than_the_header_states_is_planned_again() -> None:
    plan = plan_picture(_JPEG, ImageOptions(size=(60, 60)), load_codec("jpeg"))
    assert plan.with_size((640, 480)) is plan
    assert plan.with_size((480, 640)).geometry.size == (60, 80)
    wide = plan_picture(_JPEG, ImageOptions(codec="webp"), load_codec("webp"))
    with pytest.raises(ImageError, match="codec webp ends at"):
        wide.with_size((20_000, 10))


@pytest.mark.parametrize("options", [ImageOptions(size=(32, 32)), ImageOptions(reencode=True)])
def test_each_step_of_a_conversion_is_decided_once(
    options: ImageOptions, photo: Pixels, save: Callable[..., bytes]
) -> None:
    data = save(photo, "jpeg")
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and "packer/imaging" in frame.f_code.co_filename:
            calls[frame.f_code.co_name] += 1

    transcode(data, options)  # what a first call imports
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        encoded = transcode(data, options)
    finally:
        sys.setprofile(before)
    assert np.array_equal((encoded.width, encoded.height), (48, 32)) or options.size is None
    for step in ("probe", "geometry", "conversion", "plan_picture", "decode_by_simplejpeg"):
        assert calls[step] == 1, step
