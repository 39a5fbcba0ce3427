"""One rule for all readers: what a transform is called with, is what `decode` says."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from torch.utils.data import DataLoader

from packer.errors import MissingDependency, UsageError
from packer.reader import BatchStream, Loader, MixedStream, PackedDataset, WindowSampler
from packer.reader.transforms import CenterCrop, Normalize, RandomHorizontalFlip
from tests.packs import BuildPack

pytestmark = [
    # Python 3.12 and later warn of forks where libraries have threads; that they work is the test.
    pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning"),
]


def describe(image: Any) -> str:
    """What it is, and a digest of its pixels or bytes."""
    if isinstance(image, Image.Image):
        kind, data = f"PIL {image.mode} {image.size}", np.array(image).tobytes()
    elif isinstance(image, np.ndarray):
        kind, data = f"array {image.shape} {image.dtype}", image.tobytes()
    else:
        kind, data = type(image).__name__, image
    return f"{kind} {hashlib.sha256(data).hexdigest()[:8]}"


def dataset_of(root: Path, options: dict[str, Any]) -> Any:
    return PackedDataset(root, **options)


def stream_of(root: Path, options: dict[str, Any]) -> BatchStream:
    return BatchStream(dataset_of(root, options), 3, shuffle="none")


def images(loop: Any) -> list[Any]:
    return [image for mini_batch in loop for image in mini_batch[0]]


def by_index(root: Path, options: dict[str, Any]) -> list[Any]:
    return [image for image, _ in dataset_of(root, options)]


def by_sampler(root: Path, options: dict[str, Any]) -> list[Any]:
    dataset = dataset_of(root, options)
    sampler = WindowSampler(dataset, 3, shuffle="none")
    return images(DataLoader(dataset, batch_sampler=sampler))


def in_loader(root: Path, options: dict[str, Any], **more: Any) -> list[Any]:
    loader = Loader(root, batch_size=3, shuffle="none", threads=1, **options, **more)
    found = images(loader)
    loader.close()
    return found


#: Every way to read with transforms: each returns the pictures in the pack's order.
READERS: dict[str, Callable[[Path, dict[str, Any]], list[Any]]] = {
    "index": by_index,
    "DataLoader": lambda root, options: images(DataLoader(dataset_of(root, options), 3)),
    "WindowSampler": by_sampler,
    "BatchStream": lambda root, options: images(stream_of(root, options)),
    "BatchStream in a worker": lambda root, options: images(
        DataLoader(
            stream_of(root, options),
            batch_size=None,
            num_workers=1,
            multiprocessing_context="fork",
        )
    ),
    "MixedStream": lambda root, options: images(MixedStream([stream_of(root, options)])),
    "Loader": in_loader,
    "Loader of a data set": lambda root, options: images(
        Loader(dataset_of(root, options), batch_size=3, shuffle="none", threads=1)
    ),
    "Loader in a process": lambda root, options: in_loader(root, options, process="fork"),
}
CALLED_WITH: list[tuple[dict[str, Any], list[Any], str]] = [
    ({}, [], "PIL RGB (8, 6)"),
    ({"decode": "pil"}, [], "PIL RGB (8, 6)"),
    ({"decode": "numpy"}, [], "array (6, 8, 3) uint8"),
    ({"decode": "bytes"}, [], "bytes"),
    ({}, [CenterCrop(4)], "PIL RGB (4, 4)"),
    ({"decode": "numpy"}, [CenterCrop(4)], "array (4, 4, 3) uint8"),
    ({}, [CenterCrop(4), Normalize((0, 0, 0), (1, 1, 1))], "array (4, 4, 3) float32"),
]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("codec", ["raw", "jpeg"])
def test_a_callable_gets_what_decode_says(build_pack: BuildPack, codec: str, reader: str) -> None:
    root = build_pack([[4, 4], [1]], codec=codec).root
    for options, front, kind in CALLED_WITH:
        transform = [*front, describe] if front else describe
        found = READERS[reader](root, {"transform": transform, **options})
        assert len(found) == 9
        assert {text.rpartition(" ")[0] for text in found} == {kind}
        assert found == READERS["index"](root, {"transform": transform, **options})


@pytest.mark.parametrize("decode", [None, "pil", "numpy"])
def test_without_callables_all_mini_batches_are_tensors(build_pack: BuildPack, decode: Any) -> None:
    """So `decode` costs nothing where nobody looks at it."""
    built = build_pack([[4, 4]])
    options = {} if decode is None else {"decode": decode}
    for name in ("BatchStream", "MixedStream", "Loader", "Loader of a data set"):
        found = READERS[name](built.root, dict(options))
        assert all(
            np.array_equal(image.permute(1, 2, 0), pixels)
            for image, pixels in zip(found, built.pixels, strict=True)
        )


def test_a_loader_has_the_same_default(build_pack: BuildPack) -> None:
    root = build_pack([[4]]).root
    assert Loader(root, batch_size=2).decode == PackedDataset(root).decode == "pil"
    assert Loader(root, batch_size=2, decode="bytes").decode == "bytes"
    with pytest.raises(UsageError, match="decode given beside a data set, which has its own"):
        Loader(PackedDataset(root), batch_size=2, decode="pil")


def test_pictures_are_the_callables_own(build_pack: BuildPack) -> None:
    """What a callable writes reaches nobody else, whichever kind it gets."""

    def blacken(image: Any) -> Any:
        if isinstance(image, np.ndarray):
            image[:] = 0
            return image.copy()
        image.paste((0, 0, 0), (0, 0, *image.size))
        return np.array(image)

    built = build_pack([[4, 4]])
    for decode in ("pil", "numpy"):
        dataset = PackedDataset(built.root, transform=[blacken], decode=decode)
        assert not any(image.any() for image, _ in BatchStream(dataset, 2))
        dataset.transform = None
        assert np.array_equal(np.array(dataset[5][0]), built.pixels[5])


def test_a_built_in_behind_others_takes_arrays_alone(build_pack: BuildPack) -> None:
    chain: list[Any] = [lambda image: image, RandomHorizontalFlip(1.0)]
    built = build_pack([[4]])
    for name in ("index", "BatchStream", "Loader"):
        found = READERS[name](built.root, {"transform": chain, "decode": "numpy"})
        assert len(found) == 4
        with pytest.raises(UsageError, match=r"put them before other transforms.*decode='numpy'"):
            READERS[name](built.root, {"transform": chain})


def test_without_pillow_the_error_says_what_else_to_write(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = build_pack([[4]])
    monkeypatch.setitem(sys.modules, "PIL", None)
    for name in ("index", "BatchStream", "Loader"):
        with pytest.raises(MissingDependency, match=r"needs Pillow.*pip install.*decode='numpy'"):
            READERS[name](built.root, {"transform": len})
        assert len(READERS[name](built.root, {"transform": len, "decode": "bytes"})) == 4
    assert len(READERS["BatchStream"](built.root, {"transform": CenterCrop(4)})) == 4


@pytest.mark.parametrize("decode", ["pil", "numpy"])
@pytest.mark.parametrize("reader", ["index", "BatchStream", "Loader"])
def test_an_error_says_what_it_was_called_with(
    build_pack: BuildPack, decode: str, reader: str
) -> None:
    def needs_another(image: Any) -> Any:
        raise TypeError("image must be another type")

    root = build_pack([[4]]).root
    with pytest.raises(TypeError) as caught:
        READERS[reader](root, {"transform": needs_another, "decode": decode})
    note = getattr(caught.value, "__notes__", None) or [str(caught.value.__cause__)]
    assert note[0].endswith(f"(decode={decode!r})")
