"""Assignments to attributes that mirror an argument."""

from __future__ import annotations

import copy
import inspect
import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, random_split

from packer.attributes import ReadOnly
from packer.errors import UsageError
from packer.reader import BatchStream, Loader, MixedStream, PackedDataset, WindowSampler
from packer.reader.transforms import CenterCrop, RandomHorizontalFlip, RandomResizedCrop
from packer.settings.options import ConvertOptions
from packer.writer import PackWriter
from tests.packs import BuildPack

pytestmark = [
    # More workers than cores are slow, and here that is all they are.
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    # Python 3.12 and later warn of forks where libraries have threads; that they work is the test.
    pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning"),
]

SHARDS = [[4, 4], [4]]
CLASSES: tuple[Any, ...] = (
    PackedDataset,
    BatchStream,
    Loader,
    WindowSampler,
    MixedStream,
    PackWriter,
)
ARGUMENTS = [(owner, name) for owner in CLASSES for name in inspect.signature(owner).parameters]
#: Those that take effect when they are assigned. All others refuse it.
TAKES_EFFECT = {"transform", "target_transform"}
#: No arguments, but lists that code written for ImageFolder assigns.
VIEWS: list[tuple[Any, str]] = [
    *((PackedDataset, name) for name in ("classes", "class_to_idx", "targets", "samples", "imgs")),
    *((PackedDataset, name) for name in ("keys", "skipped")),
    (BatchStream, "skipped"),
]


def made(owner: Any, root: Path) -> Any:
    if owner in (PackedDataset, Loader):
        return owner(root, **({"batch_size": 4} if owner is Loader else {}))
    if owner is PackWriter:
        return owner(root.parent / "written")
    stream = (WindowSampler if owner is WindowSampler else BatchStream)(PackedDataset(root), 4)
    return (
        MixedStream([stream])
        if isinstance(stream, BatchStream) and owner is MixedStream
        else stream
    )


@pytest.mark.parametrize(("owner", "name"), ARGUMENTS + VIEWS)
def test_each_argument_takes_effect_or_refuses(
    build_pack: BuildPack, owner: Any, name: str
) -> None:
    """A new argument has to be an attribute: a property with a setter, or ReadOnly."""
    one = made(owner, build_pack(SHARDS).root)
    if name in TAKES_EFFECT:
        assert isinstance(inspect.getattr_static(owner, name), property)
        setattr(one, name, abs)
        assert getattr(one, name) is abs
        return
    assert isinstance(inspect.getattr_static(owner, name), ReadOnly)
    before = getattr(one, name)
    with pytest.raises(AttributeError, match=rf"{owner.__name__}\.{name} cannot be assigned: \w+"):
        setattr(one, name, None)
    assert type(getattr(one, name)) is type(before)
    if owner is PackWriter:
        one.abort()


def test_arguments_are_read_back(build_pack: BuildPack, tmp_path: Path) -> None:
    root = build_pack(SHARDS).root
    given: dict[str, Any] = {
        "split": "train",
        "transform": [CenterCrop(4), np.negative],
        "target_transform": abs,
        "decode": "numpy",
        "decode_quality": "fast",
        "verify": "always",
        "on_error": "skip",
        "stage": tmp_path / "staged",
    }
    dataset = PackedDataset(root, **given)
    given["transform"] = tuple(given["transform"])  # or appending to it would change nothing else
    assert {name: getattr(dataset, name) for name in given} == given
    order: dict[str, Any] = {
        "batch_size": 3,
        "shuffle": "batch",
        "window": 5,
        "seed": 6,
        "tail": "pad",
        "rank": 1,
        "world_size": 2,
    }
    fields: dict[str, Any] = {"fields": ("label",), "as_dict": True}
    stream, sampler = BatchStream(dataset, **order, **fields), WindowSampler(dataset, **order)
    for one, names in ((stream, {**order, **fields}), (sampler, order)):
        assert {name: getattr(one, name) for name in names} == names
        assert one.dataset is dataset
    more: dict[str, Any] = {
        "threads": 1,
        "ahead": 4,
        "device": "cpu",
        "pin_memory": False,
        "memory_format": torch.contiguous_format,
        "process": "spawn",
    }
    loader = Loader(dataset, **order, **fields, **more)
    assert {name: getattr(loader, name) for name in {**order, **more}} == {**order, **more}
    assert (loader.root, loader.transform) == (dataset.root, dataset.transform)
    mixed = MixedStream([stream], weights=[2], length=1, seed=8)
    assert (mixed.streams, mixed.weights, mixed.length, mixed.seed) == ((stream,), (2,), 1, 8)
    options = ConvertOptions(batch_size=2)
    writer = PackWriter(tmp_path / "out", classes=["a"], options=options, fields={"note": "txt"})
    assert (writer.out, writer.classes) == (tmp_path / "out", ("a",))
    assert (writer.options, writer.fields) == (options, {"note": "txt"})
    writer.abort()


def same(found: Any, expected: Any) -> bool:
    """Whether two loops gave the same mini-batches, byte for byte."""
    return [[torch.as_tensor(part).tolist() for part in batch] for batch in found] == [
        [torch.as_tensor(part).tolist() for part in batch] for batch in expected
    ]


def negative(label: int) -> int:
    return -label


class Noise:
    """Adds noise from a generator that it made itself."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)

    def __call__(self, pixels: Any) -> Any:
        return pixels + self.generator.normal(size=pixels.shape)


def new_transform() -> list[Any]:
    return [RandomResizedCrop(4), RandomHorizontalFlip(), Noise()]


@pytest.mark.parametrize("how", ["itself", "select", "copy", "deepcopy"])
def test_a_data_set_is_as_if_it_had_been_given(build_pack: BuildPack, how: str) -> None:
    root = build_pack(SHARDS).root
    old: list[Any] = [CenterCrop(6), lambda pixels: "old"]
    made_with = PackedDataset(
        root, decode="numpy", transform=CenterCrop(3), target_transform=negative
    ).select(first=9)
    dataset = PackedDataset(root, decode="numpy", transform=old)
    assert dataset[0][0] == "old"
    changed = {
        "itself": lambda: dataset,
        "select": lambda: dataset.select(first=9),
        "copy": lambda: copy.copy(dataset),
        "deepcopy": lambda: copy.deepcopy(dataset),
    }[how]()
    changed.transform = CenterCrop(3)
    changed.target_transform = negative
    assert not changed.decoder.others  # fused with decoding, not called one by one
    for sample in range(9):
        assert np.array_equal(changed[sample][0], made_with[sample][0])
        assert changed[sample][1] == made_with[sample][1]
    if how != "itself":
        assert (dataset[0][0], dataset[0][1]) == ("old", 0)


def test_a_subset_with_transforms_of_its_own(build_pack: BuildPack) -> None:
    full: Any = PackedDataset(build_pack(SHARDS).root, decode="numpy", transform=CenterCrop(3))
    train, val = random_split(full, [0.5, 0.5], torch.Generator().manual_seed(0))
    second: Any = copy.copy(full)
    val.dataset = second
    second.transform = CenterCrop(5)
    shapes = [next(iter(DataLoader(part, batch_size=4)))[0].shape for part in (train, val)]
    assert shapes == [(4, 3, 3, 3), (4, 5, 5, 3)]


@pytest.mark.slow
@pytest.mark.parametrize("process", [False, True])
def test_a_loader_uses_it_in_its_next_loop(build_pack: BuildPack, process: bool) -> None:
    root = build_pack(SHARDS).root
    options: dict[str, Any] = {"batch_size": 2, "threads": 1, "process": process}
    loader = Loader(root, transform=CenterCrop(6), **options)
    loop = iter(loader)
    assert next(loop).image.shape == (2, 3, 6, 6)
    loader.transform = CenterCrop(3)
    loader.target_transform = negative
    assert {batch.image.shape for batch in loop} == {(2, 3, 6, 6)}
    loader.set_epoch(0)
    found = list(loader)
    assert same(found, Loader(root, transform=CenterCrop(3), target_transform=negative, **options))
    loader.dataset.transform = None  # of other pixels, so of other memory
    assert {batch.image.shape for batch in loader} == {(2, 3, 6, 8)}
    loader.close()


@pytest.mark.parametrize(
    ("kind", "workers"),
    [
        ("stream", None),
        ("stream", "fork"),
        ("stream", "forkserver"),
        ("mixed", None),
        ("mixed", "fork"),
        ("sampler", "fork"),
    ],
)
def test_loops_made_before(build_pack: BuildPack, kind: str, workers: str | None) -> None:
    """With generators of transforms seeded for the worker, built-in ones by epoch and sample."""
    root = build_pack(SHARDS).root

    def loop_over(dataset: PackedDataset) -> Any:
        more: Any = {"multiprocessing_context": workers, "num_workers": 2} if workers else {}
        more["generator"] = torch.Generator().manual_seed(0)
        if kind == "sampler":
            found: Any = dataset
            return DataLoader(found, batch_sampler=WindowSampler(dataset, 2), **more)
        stream = BatchStream(dataset, 2)
        mixed = MixedStream([stream]) if kind == "mixed" else stream
        return DataLoader(mixed, batch_size=None, **more)

    if kind == "sampler":  # draws built-in transforms from torch's generator
        torch.manual_seed(3)
    expected = list(loop_over(PackedDataset(root, decode="numpy", transform=new_transform())))
    dataset = PackedDataset(root, decode="numpy", transform=CenterCrop(2))
    loop = loop_over(dataset)
    dataset.transform = new_transform()
    if kind == "sampler":
        torch.manual_seed(3)
        assert [images.shape for images, _ in loop] == [images.shape for images, _ in expected]
    else:
        assert same(loop, expected)


def test_generators_are_seeded_for_a_rank(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = build_pack(SHARDS).root
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    given = PackedDataset(root, decode="numpy", transform=Noise())
    assigned, late = (PackedDataset(root, decode="numpy") for _ in range(2))
    assigned.transform = Noise()
    assert late[0]
    late.transform = Noise()
    expected = given[0][0]
    assert np.array_equal(assigned[0][0], expected)
    assert np.array_equal(late[0][0], expected)
    assert not np.array_equal(late[0][0], expected)  # and not seeded again
    monkeypatch.setenv("RANK", "2")
    assert not np.array_equal(
        PackedDataset(root, decode="numpy", transform=Noise())[0][0], expected
    )


def loop_when_asked(connection: Any, stream: BatchStream) -> None:
    connection.recv()
    try:
        connection.send([images.shape for images, _ in stream])
    except UsageError as error:
        connection.send(error)


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_processes_that_were_there_before_refuse_the_old_one(
    build_pack: BuildPack, context: str
) -> None:
    """What DataLoader's persistent workers meet, which torch lets wait for 5 s after an error."""
    stream = BatchStream(PackedDataset(build_pack(SHARDS).root, decode="numpy"), 4)
    stream.dataset.transform = CenterCrop(3)
    processes: Any = multiprocessing.get_context(context)
    found = []
    for late in (True, False):
        ours, theirs = processes.Pipe()
        process = processes.Process(target=loop_when_asked, args=(theirs, stream))
        process.start()
        if late:
            stream.dataset.transform = CenterCrop(2)
        ours.send("go")
        found.append(ours.recv())
        process.join()
    assert isinstance(found[0], UsageError)
    assert "after this DataLoader started its workers" in str(found[0])
    assert found[1] == [(4, 3, 2, 2)] * 3


def assign_in_worker(number: int) -> None:
    info: Any = torch.utils.data.get_worker_info()
    info.dataset.dataset.transform = CenterCrop(2 + number)


def test_each_worker_may_have_its_own(build_pack: BuildPack) -> None:
    stream = BatchStream(PackedDataset(build_pack(SHARDS).root, decode="numpy"), 4)
    options: Any = {"batch_size": None, "worker_init_fn": assign_in_worker}
    loader: Any = DataLoader(stream, num_workers=2, **options)
    assert [images.shape[2] for images, _ in loader] == [2, 3, 2]


def test_an_assignment_that_is_refused_changes_nothing(build_pack: BuildPack) -> None:
    dataset = PackedDataset(build_pack(SHARDS).root, decode="bytes", transform=len)
    before = dataset[0]
    with pytest.raises(UsageError, match="leaves nothing"):
        dataset.transform = CenterCrop(3)
    with pytest.raises(UsageError, match="cannot be called"):
        dataset.transform = [3]  # type: ignore[list-item]
    wrong: Any
    for wrong in (3, "flip", {CenterCrop(3)}):
        with pytest.raises(UsageError, match="invalid transform"):
            dataset.transform = wrong
        with pytest.raises(UsageError, match="invalid target_transform"):
            dataset.target_transform = wrong
        for name in ("transform", "target_transform"):
            with pytest.raises(UsageError, match=f"invalid {name}"):
                Loader(dataset.root, batch_size=2, **{name: wrong})
    assert (dataset.transform, dataset[0]) == (len, before)
