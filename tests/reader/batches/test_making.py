from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from packer.errors import DamagedSample
from packer.imaging.native import cutting
from packer.pack.payloads import Payloads
from packer.reader.batches.draft import Made
from packer.reader.batches.making import Maker
from packer.reader.batches.material import Wanted
from packer.reader.batches.windows import WindowBuffer
from packer.reader.images.collate import collate_images
from packer.reader.transforms import (
    CenterCrop,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
)
from packer.types import Array
from tests.materials import MakeMaterial
from tests.packs import BuildPack


def made(maker: Maker, wanted: Wanted, sheet: Array | None) -> Made:
    draft = maker.read(wanted, sheet)
    for number in range(draft.count):
        maker.decode(draft, number)
    return maker.finished(draft)


def cut_short(payload: memoryview | None) -> memoryview:
    assert payload is not None
    return payload[:-1]


def test_pictures_go_to_the_sheet(build_pack: BuildPack, make_material: MakeMaterial) -> None:
    built = build_pack([[4], [3]])
    maker = Maker(make_material(built, 3))
    sheet = np.zeros((3, 6, 8, 3), np.uint8)
    for step, samples in enumerate(([0, 1, 2], [3, 4, 5], [6])):
        columns, count = made(maker, Wanted(0, 0, step), sheet)
        assert count == len(samples)
        assert list(columns) == ["key", "label"]
        assert columns["key"] == [built.keys[sample] for sample in samples]
        assert columns["label"].tolist() == [built.labels[sample] for sample in samples]
        assert np.array_equal(sheet[: len(samples)], [built.pixels[sample] for sample in samples])
    assert made(maker, Wanted(1, 2, 0), sheet).columns["key"] == built.keys[2:5]


@pytest.mark.parametrize("planes", [False, True])
def test_pictures_in_memory_of_the_makers_own(
    build_pack: BuildPack, make_material: MakeMaterial, planes: bool
) -> None:
    built = build_pack([[4], [3]])
    for whole in (False, True):
        maker = Maker(make_material(built, 3, planes=planes))
        for step, samples in enumerate(([0, 1, 2], [3, 4, 5], [6])):
            wanted = Wanted(0, 0, step)
            columns = maker.make(wanted) if whole else made(maker, wanted, None).columns
            assert list(columns) == ["key", "image", "label"]
            images = columns["image"]
            assert images.is_contiguous() == planes
            expected = [built.pixels[sample] for sample in samples]
            assert np.array_equal(images.permute(0, 2, 3, 1), expected)


def test_planes_in_a_sheet(build_pack: BuildPack, make_material: MakeMaterial) -> None:
    built = build_pack([[4]])
    sheet = np.zeros((4, 3, 6, 8), np.uint8)
    made(Maker(make_material(built, 4, planes=True)), Wanted(0, 0, 0), sheet)
    assert np.array_equal(sheet[2].transpose(1, 2, 0), built.pixels[2])


@pytest.mark.parametrize(
    ("codec", "transform"),
    [
        ("raw", None),
        ("raw", [CenterCrop(30)]),
        ("raw", [RandomResizedCrop(30)]),
        ("jpeg", None),
        ("jpeg", [RandomResizedCrop(30), RandomHorizontalFlip()]),
        ("jpeg", [CenterCrop(70)]),
        ("jpeg", [RandomResizedCrop(30), Normalize((0.5, 0.4, 0.3), (0.2, 0.2, 0.2))]),
        ("png", [RandomHorizontalFlip()]),
        ("jpeg", [RandomResizedCrop(30), np.asarray]),
    ],
)
@pytest.mark.parametrize("decode", ["numpy", "pil"])
def test_pictures_in_one_tensor_are_those_that_were_made_one_by_one(
    build_pack: BuildPack, make_material: MakeMaterial, codec: str, transform: Any, decode: str
) -> None:
    built = build_pack([[11]], codec=codec, sizes=((80, 60),))
    material = make_material(built, 11, decode=decode, transform=transform)
    payloads = material.dataset.payloads.read(range(11), "image")
    alone = collate_images(
        [material.fields.image(payload, 2, sample) for sample, payload in enumerate(payloads)]
    )
    together = Maker(material).make(Wanted(2, 0, 0))["image"]
    assert torch.equal(together, alone)
    assert (together.dtype, together.stride()) == (alone.dtype, alone.stride())


def test_pictures_of_several_sizes_stay_apart(
    build_pack: BuildPack, make_material: MakeMaterial
) -> None:
    built = build_pack([[4]], sizes=((8, 6), (5, 7)))
    images = Maker(make_material(built, 4)).make(Wanted(0, 0, 0))["image"]
    for image, pixels in zip(images, built.pixels, strict=True):
        assert np.array_equal(image.permute(1, 2, 0), pixels)


@pytest.mark.parametrize("codec", ["raw", "jpeg"])
def test_a_damaged_picture_is_named(
    build_pack: BuildPack, make_material: MakeMaterial, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    """Also where several are decoded at once. Checksums agree, so that decoding finds it."""
    maker = Maker(make_material(build_pack([[11]], codec=codec, sizes=((80, 60),)), 11))
    read = Payloads.read
    for cut in (None, slice(-20)):

        def damaged(self: Any, samples: Any, *where: Any, cut: Any = cut, **how: Any) -> Any:
            found = read(self, samples, *where, **how)
            broken = list(samples).index(9)
            payload = found[broken]
            assert payload is not None
            found[broken] = None if cut is None else payload[cut]
            return found

        monkeypatch.setattr(WindowBuffer, "read", lambda _, *what: damaged(_payloads(maker), *what))
        with pytest.raises(DamagedSample) as caught:
            maker.make(Wanted(0, 0, 0))
        assert caught.value.sample == 9


def _payloads(maker: Maker) -> Payloads:
    return maker._dataset.payloads


def test_transforms_are_called_in_the_order_of_the_fields(
    build_pack: BuildPack, make_material: MakeMaterial
) -> None:
    """So what they draw from a generator that they share does not depend on how they are made."""
    built, called = build_pack([[3]]), []

    def of_image(pixels: Array) -> Array:
        called.append("image")
        return pixels

    def of_label(label: int) -> int:
        called.append("label")
        return label

    options: dict[str, Any] = {"transform": of_image, "target_transform": of_label}
    for fields in (("image", "label"), ("label", "key", "image")):
        called.clear()
        Maker(make_material(built, 3, fields=fields, **options)).make(Wanted(0, 0, 0))
        assert called == [name for name in fields if name != "key" for _ in range(3)]


def test_a_damaged_one_is_replaced_or_an_error(
    build_pack: BuildPack, make_material: MakeMaterial
) -> None:
    built = build_pack([[4]])
    sheet = np.zeros((4, 6, 8, 3), np.uint8)
    for on_error in ("skip", "raise"):
        maker = Maker(make_material(built, 4, on_error=on_error))
        draft = maker.read(Wanted(0, 0, 0), sheet)
        assert draft.pictures is not None
        payloads = draft.pictures.payloads
        payloads[1] = cut_short(payloads[1])
        with pytest.raises(DamagedSample, match=r"class1/1\.v1\.jpg") as caught:
            maker.decode(draft, 1)
        if on_error == "raise":
            with pytest.raises(DamagedSample):
                maker.remade(draft, caught.value)
            continue
        with pytest.warns(UserWarning, match="skipped"):
            finished = maker.finished(maker.remade(draft, caught.value))
        assert finished.in_sheet == 4
        assert finished.columns["key"] == [built.keys[sample] for sample in (0, 2, 2, 3)]
        assert np.array_equal(sheet, [built.pixels[sample] for sample in (0, 2, 2, 3)])


def test_a_run_of_pictures_in_one_go(build_pack: BuildPack, make_material: MakeMaterial) -> None:
    built = build_pack([[6]])
    if not cutting.NATIVE.is_built:
        pytest.skip("built without a compiler")
    sheet = np.zeros((6, 6, 8, 3), np.uint8)
    maker = Maker(make_material(built, 6))
    draft = maker.read(Wanted(0, 0, 0), sheet)
    assert maker.at_once
    assert not maker.decode_several(draft, range(2, 5))
    assert np.array_equal(sheet[2:5], built.pixels[2:5])
    assert not sheet[:2].any() and not sheet[5:].any()
    assert draft.pictures is not None
    payloads = draft.pictures.payloads
    payloads[3] = cut_short(payloads[3])
    assert maker.decode_several(draft, range(2, 5)) == [2, 3, 4]
    with pytest.raises(DamagedSample) as caught:
        maker.decode(draft, 3)
    assert caught.value.sample == 3


def test_runs_that_go_picture_by_picture(
    build_pack: BuildPack, make_material: MakeMaterial
) -> None:
    built = build_pack([[6]])
    planes = np.zeros((6, 3, 6, 8), np.uint8)
    for material, sheet in (
        (make_material(built, 6, planes=True), planes),
        (make_material(built, 6, transform=[np.array]), None),
        (make_material(built, 6, decode="bytes"), None),
    ):
        maker = Maker(material)
        draft = maker.read(Wanted(0, 0, 0), sheet)
        assert list(maker.decode_several(draft, range(1, 6))) == [1, 2, 3, 4, 5]
