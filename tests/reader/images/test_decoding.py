from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from packer.codecs import load_codec
from packer.errors import DamageError, UsageError
from packer.imaging import memory
from packer.imaging.native import cutting, pieces
from packer.imaging.native import region as region_module
from packer.pack.opened import Pack
from packer.reader import BatchStream, Loader, PackedDataset
from packer.reader.images import decoding
from packer.reader.images.decoding import Decoder, owned
from packer.reader.images.steps import Shape, Step, apply_steps
from packer.reader.order.hashing import Draws, combine
from packer.reader.transforms import (
    BuiltIn,
    CenterCrop,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    draw_steps,
)
from packer.types import Array
from tests.packs import BuildPack


def decoder_of(
    build_pack: BuildPack, decode: str, transform: Any = None, codec: str = "raw"
) -> Any:
    built = build_pack([[4]], codec=codec)
    return built, Decoder(Pack(built.root), decode, transform)


def payload_of(built: Any, sample: int) -> memoryview:
    return memoryview(bytearray(built.samples[sample].payloads["image"]))


@pytest.mark.parametrize(("codec", "tolerance"), [("raw", 0), ("png", 0), ("jpeg", 12)])
def test_decodes_what_was_encoded(build_pack: BuildPack, codec: str, tolerance: int) -> None:
    built, decoder = decoder_of(build_pack, "numpy", codec=codec)
    image = decoder.image(payload_of(built, 2), 2, Draws(0))
    assert (image.shape, image.dtype) == ((6, 8, 3), np.uint8)
    assert image.flags.writeable
    assert abs(image.astype(int) - built.pixels[2]).max() <= tolerance


def test_decode_says_what_the_caller_and_transforms_get(build_pack: BuildPack) -> None:
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


def test_built_in_transforms_work_on_pixels_first(build_pack: BuildPack) -> None:
    def grey(image: Image.Image) -> Image.Image:
        assert image.size == (4, 2)
        return image.convert("L")

    built, decoder = decoder_of(build_pack, "pil", [CenterCrop((2, 4)), grey])
    assert decoder.image(payload_of(built, 0), 0, Draws(0)).mode == "L"
    assert len(decoder.built_in) == len(decoder.others) == 1


def test_floats_stay_arrays(build_pack: BuildPack) -> None:
    built, decoder = decoder_of(build_pack, "pil", [Normalize((0, 0, 0), (1, 1, 1))])
    image = decoder.image(payload_of(built, 0), 0, Draws(0))
    assert image.dtype == np.float32
    assert np.allclose(image * 255, built.pixels[0], atol=1e-3)


def test_a_built_in_behind_others_works_on_what_they_return(build_pack: BuildPack) -> None:
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
def test_a_payload_that_cannot_be_decoded_is_named(build_pack: BuildPack, codec: str) -> None:
    built, decoder = decoder_of(build_pack, "numpy", codec=codec)
    broken = payload_of(built, 2)[:-40]
    with pytest.raises(DamageError, match=r"batch 0, offset \d+, image of 'class2/2\.v1\.jpg'"):
        decoder.image(broken, 2, Draws(0))
    with pytest.raises(DamageError, match="is not there"):
        decoder.image(None, 2, Draws(0))


def test_what_cannot_be_is_refused(build_pack: BuildPack) -> None:
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


NORMAL = Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


@pytest.mark.parametrize("codec", ["raw", "png", "jpeg"])
@pytest.mark.parametrize(
    "transform", [None, [RandomResizedCrop(5), RandomHorizontalFlip()], [CenterCrop(4), NORMAL]]
)
def test_writing_gives_the_pixels(build_pack: BuildPack, codec: str, transform: Any) -> None:
    built, decoder = decoder_of(build_pack, "numpy", transform, codec)
    for sample in range(4):
        payload = payload_of(built, sample)
        expected = decoder.pixels(payload, sample, Draws(sample))
        out = np.zeros(expected.shape, expected.dtype)
        decoder.write(payload, sample, Draws(sample), out)
        assert np.array_equal(out, expected)
        assert decoder.fixed_shape() == out.shape[:2]
        with pytest.raises(DamageError, match="image of"):
            decoder.write(payload[: len(payload) // 2], sample, Draws(sample), out)
        with pytest.raises(DamageError, match="is not there"):
            decoder.write(None, sample, Draws(sample), out)


def test_the_size_of_all_pictures_comes_from_transforms_or_the_index(build_pack: BuildPack) -> None:
    for number, (sizes, transform, expected) in enumerate(
        [
            (((8, 6),), None, (6, 8)),
            (((8, 6),), [Resize(12)], (12, 16)),
            (((8, 6), (6, 8)), [Resize(12)], None),
            (((8, 6), (8, 5)), None, None),
            (((8, 6), (8, 5)), [CenterCrop(3)], (3, 3)),
        ]
    ):
        built = build_pack([[3, 2]], sizes=sizes, name=str(number))
        assert Decoder(Pack(built.root), "numpy", transform).fixed_shape() == expected


CHAINS: list[Any] = [
    None,
    [RandomResizedCrop(40), RandomHorizontalFlip()],
    [RandomHorizontalFlip(), RandomResizedCrop((30, 50)), NORMAL],
    [CenterCrop(60), RandomHorizontalFlip()],
    [Resize(80), CenterCrop(72)],
    [CenterCrop(130)],
]


@pytest.mark.parametrize("codec", ["jpeg", "raw", "png"])
@pytest.mark.parametrize("extension", [True, False])
@pytest.mark.parametrize("transform", CHAINS)
def test_exact_is_decoding_everything_and_then_transforming(
    monkeypatch: pytest.MonkeyPatch,
    build_pack: BuildPack,
    codec: str,
    extension: bool,
    transform: Any,
) -> None:
    """Bit for bit, for `pixels`, `write` and `image`."""
    if not extension:
        monkeypatch.setattr(region_module.NATIVE, "module", None)
    built = build_pack([[6]], codec=codec, sizes=((100, 80), (90, 120), (128, 128)))
    decoder = Decoder(Pack(built.root), "numpy", transform)
    for sample in range(6):
        payload = payload_of(built, sample)
        width, height = built.samples[sample].width, built.samples[sample].height
        whole = load_codec(codec).decode(payload, width, height)
        for seed in range(8):
            steps = draw_steps(decoder.built_in, (height, width), Draws(seed))
            expected = apply_steps(whole, steps)
            assert np.array_equal(decoder.pixels(payload, sample, Draws(seed)), expected)
            assert np.array_equal(decoder.image(payload, sample, Draws(seed)), expected)
            out = np.zeros(expected.shape, expected.dtype)
            decoder.write(payload, sample, Draws(seed), out)
            assert np.array_equal(out, expected)


def test_fast_deviates_a_little(build_pack: BuildPack) -> None:
    built = build_pack([[3]], codec="jpeg", sizes=((600, 500),))
    pack = Pack(built.root)
    chain = [RandomResizedCrop(64, scale=(0.3, 1)), RandomHorizontalFlip()]
    exact, fast = (Decoder(pack, "numpy", chain, quality) for quality in ("exact", "fast"))
    differ = 0
    for seed in range(20):
        payload = payload_of(built, seed % 3)
        one, two = (how.pixels(payload, seed % 3, Draws(seed)) for how in (exact, fast))
        assert one.shape == two.shape
        error = float(np.mean((one.astype(float) - two) ** 2))
        assert error < 255**2 / 10**3.2  # PSNR of 32 dB
        differ += error > 0
        assert np.array_equal(two, fast.pixels(payload, seed % 3, Draws(seed)))
    assert differ
    with pytest.raises(UsageError, match="did you mean 'fast'"):
        Decoder(pack, "numpy", None, "fats")


@pytest.mark.parametrize("quality", ["exact", "fast"])
@pytest.mark.parametrize("extension", [True, False])
def test_damage_within_a_crop_is_named(
    monkeypatch: pytest.MonkeyPatch, build_pack: BuildPack, extension: bool, quality: str
) -> None:
    if not extension:
        monkeypatch.setattr(region_module.NATIVE, "module", None)
    built = build_pack([[2]], codec="jpeg", sizes=((200, 160),))
    decoder = Decoder(Pack(built.root), "numpy", [CenterCrop(100)], quality)
    whole = payload_of(built, 1)
    swapped = build_pack([[2]], codec="jpeg", sizes=((160, 200),), name="swapped")
    cut = bytes(whole[: len(whole) // 2])
    out = np.zeros((100, 100, 3), np.uint8)
    for broken in (cut, cut + b"\xff\xd9", b"", bytes(payload_of(swapped, 1))):
        with pytest.raises(DamageError, match=r"image of 'class1/1\.v1\.jpg'"):
            decoder.pixels(memoryview(broken), 1, Draws(0))
        with pytest.raises(DamageError, match=r"image of 'class1/1\.v1\.jpg'"):
            decoder.write(memoryview(broken), 1, Draws(0), out)


def draw(sample: int) -> Draws:
    return Draws(combine(7, sample))


#: codec, transforms, and which of four pictures are left to be taken one by one.
SEVERAL: dict[str, tuple[str, Any, list[int]]] = {
    "raw whole": ("raw", None, []),
    "raw cut": ("raw", [CenterCrop((4, 2))], []),
    "raw at its size": ("raw", [CenterCrop((60, 80))], []),
    "jpeg whole": ("jpeg", None, []),
    "jpeg cut": ("jpeg", [CenterCrop((40, 20))], []),
    "jpeg resized": ("jpeg", [Resize((40, 50))], []),
    "jpeg at random": ("jpeg", [RandomResizedCrop(48), RandomHorizontalFlip()], []),
    "jpeg mirrored and resized": ("jpeg", [RandomHorizontalFlip(1.0), Resize(30)], [0, 1, 2, 3]),
    "jpeg resized and mirrored": ("jpeg", [Resize(30), RandomHorizontalFlip(1.0)], []),
    "jpeg mirrored alone": ("jpeg", [RandomHorizontalFlip(1.0)], [0, 1, 2, 3]),
    "jpeg twice resized": ("jpeg", [Resize(50), CenterCrop(30), Resize(20)], [0, 1, 2, 3]),
    "jpeg with a border": ("jpeg", [CenterCrop(70)], [0, 1, 2, 3]),
    "raw mirrored": ("raw", [RandomHorizontalFlip()], [0, 1, 2, 3]),
    "raw at random": ("raw", [RandomResizedCrop(4)], [0, 1, 2, 3]),
    "raw with a border": ("raw", [CenterCrop(70)], [0, 1, 2, 3]),
    "raw resized": ("raw", [Resize((4, 4))], [0, 1, 2, 3]),
    "png": ("png", [CenterCrop(30)], [0, 1, 2, 3]),
}


@pytest.mark.parametrize("quality", ["exact", "fast"])
@pytest.mark.parametrize("case", list(SEVERAL))
def test_several_pictures_in_one_go(build_pack: BuildPack, case: str, quality: str) -> None:
    if not cutting.NATIVE.is_built or not pieces.NATIVE.is_built:
        pytest.skip("built without a compiler or libjpeg-turbo's headers")
    codec, transform, expected = SEVERAL[case]
    built = build_pack([[4]], codec=codec, sizes=((80, 60),))
    decoder = Decoder(Pack(built.root), "numpy", transform, quality)
    height, width = decoder.fixed_shape() or (0, 0)
    payloads: list[Any] = [payload_of(built, sample) for sample in range(4)]
    out, alone = np.zeros((2, 4, height, width, 3), np.uint8)
    assert list(decoder.write_all(payloads, range(4), draw, out)) == expected
    for sample in expected:
        assert not out[sample].any()
    for sample in {0, 1, 2, 3} - {*expected}:
        decoder.write(payloads[sample], sample, draw(sample), alone[sample])
        assert np.array_equal(out[sample], alone[sample])
    if not expected:  # none of raw, those that are there of JPEGs
        for broken in (payloads[3][1:], None):
            left = decoder.write_all([*payloads[:3], broken], range(4), draw, out)
            assert list(left) == ([3] if codec == "jpeg" else [0, 1, 2, 3])


def test_several_pictures_of_different_sizes(build_pack: BuildPack) -> None:
    if not pieces.NATIVE.is_built:
        pytest.skip("built without a compiler or libjpeg-turbo's headers")
    built = build_pack([[4]], codec="jpeg", sizes=((80, 60), (30, 90), (70, 50), (90, 90)))
    decoder = Decoder(Pack(built.root), "numpy", [CenterCrop(50)])
    payloads: list[Any] = [payload_of(built, sample) for sample in range(4)]
    out, alone = np.zeros((2, 4, 50, 50, 3), np.uint8)
    assert list(decoder.write_all(payloads, range(4), draw, out)) == [1]  # it gets a border
    for sample in (0, 2, 3):
        decoder.write(payloads[sample], sample, draw(sample), alone[sample])
    assert np.array_equal(out, alone)


@pytest.mark.parametrize(
    "out",
    [np.zeros((4, 6, 8, 3), np.float32), np.zeros((4, 6, 16, 3), np.uint8)[:, :, ::2]],
)
def test_room_that_is_written_to_one_by_one(build_pack: BuildPack, out: Array) -> None:
    for codec in ("raw", "jpeg"):
        built, decoder = decoder_of(build_pack, "numpy", None, codec)
        payloads: list[Any] = [payload_of(built, sample) for sample in range(4)]
        assert list(decoder.write_all(payloads, range(4), draw, out)) == [0, 1, 2, 3]
        built.root.rename(built.root.with_name(codec))


def test_mini_batches_beyond_the_largest_array_are_the_same(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = build_pack([[4]]).root

    def mini_batches() -> Iterator[Any]:
        dataset = PackedDataset(root, decode="numpy", transform=[Normalize((0, 0, 0), (1, 1, 1))])
        for loop in (BatchStream(dataset, 4), Loader(dataset, batch_size=4)):
            yield from loop

    decoder = Decoder(Pack(root), "numpy", None)
    for number, most in enumerate((1 << 20, 4 * 8 * 6 * 3, 4 * 8 * 6 * 3 - 1)):
        monkeypatch.setattr(decoding, "_MOST_ROOM", most)
        monkeypatch.setattr(memory, "LARGE", 0)
        assert (decoder.room(4) is None) == (number == 2)
        found = list(mini_batches())
        if number == 0:
            expected = found
        assert len(found) == len(expected) == 2
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one[0], other[0])
            assert one[0].stride() == other[0].stride()


def test_there_must_be_memory_for_a_large_array(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = Decoder(Pack(build_pack([[4]]).root), "numpy", None)
    many = (1 << 60) // (8 * 6 * 3)
    assert decoder.room(many) is None
    monkeypatch.setattr(decoding, "_MOST_ROOM", 1 << 62)
    assert decoder.room(many) is None


@pytest.mark.parametrize("sizes", [[(8, 6)], [(8, 6), (7, 9)]])
def test_transforms_that_draw_nothing(build_pack: BuildPack, sizes: Any) -> None:
    built = build_pack([[6]], sizes=sizes)
    steps = [CenterCrop(5), Resize(3), Normalize((0.5, 0.4, 0.3), (1, 2, 3))]
    for transform in (steps[:1], steps[:2], steps):
        decoder = Decoder(Pack(built.root), "numpy", transform)
        assert not decoder.random
        for sample in range(6):
            pixels = built.pixels[sample]
            drawn = draw_steps(transform, pixels.shape[:2], Draws(0))
            found = decoder.pixels(payload_of(built, sample), sample, Draws(sample))
            assert np.array_equal(found, apply_steps(pixels, drawn))


def test_which_transforms_draw(build_pack: BuildPack) -> None:
    class Own(BuiltIn):
        def steps(self, shape: Shape, draws: Draws) -> Iterator[Step]:
            yield from ()

    for transform, random in (
        ([RandomResizedCrop(3)], True),
        ([CenterCrop(3), RandomHorizontalFlip(1)], True),
        ([CenterCrop(3), Own()], True),  # what is not known may
        ([CenterCrop(3), np.array, RandomHorizontalFlip()], True),
        ([Resize(3), CenterCrop(3), Normalize((0, 0, 0), (1, 1, 1)), np.array], False),
        (None, False),
    ):
        built, decoder = decoder_of(build_pack, "numpy", transform)
        assert decoder.random == random
        shutil.rmtree(built.root)
