from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from packer.errors import DamageError, UsageError
from packer.reader.decoding import Decoder, owned
from packer.reader.hashing import Draws
from packer.reader.pack import Pack
from packer.reader.transforms import CenterCrop, Normalize, RandomHorizontalFlip
from packer.types import Array


def decoder_of(build_pack: Any, decode: str, transform: Any = None, codec: str = "raw") -> Any:
    built = build_pack([[4]], codec=codec)
    return built, Decoder(Pack(built.root), decode, transform)


def payload_of(built: Any, sample: int) -> memoryview:
    return memoryview(bytearray(built.samples[sample].payloads["image"]))


@pytest.mark.parametrize(("codec", "tolerance"), [("raw", 0), ("png", 0), ("jpeg", 12)])
def test_decodes_what_was_encoded(build_pack: Any, codec: str, tolerance: int) -> None:
    built, decoder = decoder_of(build_pack, "numpy", codec=codec)
    image = decoder.image(payload_of(built, 2), 2, Draws(0))
    assert (image.shape, image.dtype) == ((6, 8, 3), np.uint8)
    assert image.flags.writeable
    assert abs(image.astype(int) - built.pixels[2]).max() <= tolerance


def test_decode_says_what_the_caller_and_transforms_get(build_pack: Any) -> None:
    seen: list[Any] = []

    def note(image: Any) -> Any:
        seen.append(image)
        return image

    for decode in ("pil", "numpy", "bytes"):
        built, decoder = decoder_of(build_pack, decode, note)
        out = decoder.image(payload_of(built, 1), 1, Draws(0))
        assert out is seen[-1]
        built.root.rename(built.root.with_name(decode))
    assert isinstance(seen[0], Image.Image)
    assert np.array_equal(np.array(seen[0]), seen[1])
    assert isinstance(seen[2], bytes)
    assert seen[2] == built.samples[1].payloads["image"]


def test_built_in_transforms_work_on_pixels_first(build_pack: Any) -> None:
    def grey(image: Image.Image) -> Image.Image:
        assert image.size == (4, 2)
        return image.convert("L")

    built, decoder = decoder_of(build_pack, "pil", [CenterCrop((2, 4)), grey])
    assert decoder.image(payload_of(built, 0), 0, Draws(0)).mode == "L"
    assert len(decoder.built_in) == len(decoder.others) == 1


def test_floats_stay_arrays(build_pack: Any) -> None:
    built, decoder = decoder_of(build_pack, "pil", [Normalize((0, 0, 0), (1, 1, 1))])
    image = decoder.image(payload_of(built, 0), 0, Draws(0))
    assert image.dtype == np.float32
    assert np.allclose(image * 255, built.pixels[0], atol=1e-3)


def test_a_built_in_behind_others_works_on_what_they_return(build_pack: Any) -> None:
    def flip(pixels: Array) -> Array:
        return pixels[::-1]

    always = RandomHorizontalFlip(1.0)
    built, decoder = decoder_of(build_pack, "numpy", [flip, always])
    image = decoder.image(payload_of(built, 0), 0, Draws(0))
    assert np.array_equal(image, built.pixels[0][::-1, ::-1])
    built.root.rename(built.root.with_name("other"))
    _, refusing = decoder_of(build_pack, "pil", [lambda image: image, always])
    with pytest.raises(UsageError, match="take H×W×3 uint8 arrays, not Image"):
        refusing.image(payload_of(built, 0), 0, Draws(0))


@pytest.mark.parametrize("codec", ["raw", "jpeg", "png"])
def test_a_payload_that_cannot_be_decoded_is_named(build_pack: Any, codec: str) -> None:
    built, decoder = decoder_of(build_pack, "numpy", codec=codec)
    broken = payload_of(built, 2)[:-40]
    with pytest.raises(DamageError, match=r"batch 0, offset \d+, image of 'class2/2\.v1\.jpg'"):
        decoder.image(broken, 2, Draws(0))
    with pytest.raises(DamageError, match="is not there"):
        decoder.image(None, 2, Draws(0))


def test_what_cannot_be_is_refused(build_pack: Any) -> None:
    built = build_pack([[1]])
    pack = Pack(built.root)
    refused: list[tuple[str, Any, str]] = [
        ("numpi", None, "did you mean 'numpy'"),
        ("bytes", [CenterCrop(2)], r"leaves nothing for CenterCrop\(size=\(2, 2\)\)"),
        ("pil", [3], "transform 3 cannot be called"),
    ]
    for decode, transform, words in refused:
        with pytest.raises(UsageError, match=words):
            Decoder(pack, decode, transform)


def test_owned_copies_views_only() -> None:
    whole = np.zeros((4, 4, 3), np.uint8)
    assert owned(whole) is whole
    given = np.zeros(48, np.uint8).reshape(4, 4, 3)  # as decoders fill a buffer
    assert owned(given) is given
    frozen = np.frombuffer(bytes(48), np.uint8).reshape(4, 4, 3)
    shared = np.frombuffer(bytearray(96), np.uint8)[:48].reshape(4, 4, 3)
    for view in (whole[:, ::-1], whole[1:3], frozen, shared):
        copy = owned(view)
        assert copy.flags.writeable
        assert copy.flags.c_contiguous
        assert not np.may_share_memory(copy, view)
