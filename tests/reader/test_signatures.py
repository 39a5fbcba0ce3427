"""What the signatures of public classes promise: choices, names, documentation. Each test walks
them, so that a new argument is tested, too.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from packer.errors import UsageError
from packer.pack.payloads import VERIFY
from packer.reader import BatchStream, Loader, MixedStream, PackedDataset, WindowSampler, transforms
from packer.reader.batches.skipping import ON_ERROR
from packer.reader.images.decoding import DECODES, QUALITIES
from packer.reader.loader import PROCESSES
from packer.reader.order.options import SHUFFLES, TAILS
from packer.reader.transforms import CenterCrop
from packer.staging.preload import PRELOADS
from packer.writer import PackWriter
from packer.writer import settings as writer_settings
from tests.packs import BuildPack
from tests.test_arguments import NO_TEXT

READERS: list[Any] = [PackedDataset, BatchStream, Loader, WindowSampler, MixedStream]
PUBLIC: list[Any] = [*READERS, PackWriter]
BUILT_IN: list[Any] = [
    value
    for value in vars(transforms).values()
    if isinstance(value, type) and issubclass(value, transforms.BuiltIn)
]
CHOICES: dict[str, tuple[str, ...]] = {
    "shuffle": SHUFFLES,
    "tail": TAILS,
    "decode": DECODES,
    "decode_quality": QUALITIES,
    "verify": VERIFY,
    "on_error": ON_ERROR,
    "preload": PRELOADS,
    "process": PROCESSES,
    "order": writer_settings.ORDERS,
}
#: Arguments that are a text of any kind.
TEXTS = {"root", "split", "stage", "device", "out"}


def parameters(owner: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(owner).parameters)


def alternatives(owner: Any, name: str) -> list[Any]:
    """The types of an argument, `X | Y` taken apart."""
    found = typing.get_type_hints(owner.__init__)[name]
    return list(get_args(found)) if get_origin(found) in (Union, types.UnionType) else [found]


def choices(owner: Any, name: str) -> tuple[str, ...]:
    """What the signature says, for editors and type checkers; () if it is no choice."""
    literals = [kind for kind in alternatives(owner, name) if get_origin(kind) is Literal]
    return tuple(choice for literal in literals for choice in get_args(literal))


CHOOSING = [(owner, name) for owner in PUBLIC for name in parameters(owner) if choices(owner, name)]


def made(owner: Any, root: Path, /, **options: Any) -> Any:
    if owner is PackedDataset:
        return owner(root, **options)
    if owner is Loader:
        return owner(root, batch_size=2, **options)
    if owner is PackWriter:
        return owner(root.parent / "written", **options)
    if owner is MixedStream:
        return owner([BatchStream(PackedDataset(root), 2)], **options)
    return owner(PackedDataset(root), 2, **options)


@pytest.mark.parametrize(("owner", "name"), CHOOSING)
def test_the_signature_says_what_is_accepted(build_pack: BuildPack, owner: Any, name: str) -> None:
    assert choices(owner, name) == CHOICES[name]
    root = build_pack([[4]]).root
    for choice in CHOICES[name]:
        one = made(owner, root, **{name: choice})
        assert getattr(one, name) == choice
        if owner is PackWriter:
            one.abort()


@pytest.mark.parametrize(("owner", "name"), CHOOSING)
def test_anything_else_is_refused_with_the_choices(
    build_pack: BuildPack, owner: Any, name: str
) -> None:
    root = build_pack([[4]]).root
    by_default = parameters(owner)[name].default
    accepted = (by_default, *((True, False) if bool in alternatives(owner, name) else ()))
    for wrong in ["wrong", "", *NO_TEXT]:
        if any(wrong is value for value in accepted):
            continue
        with pytest.raises(UsageError) as caught:
            made(owner, root, **{name: wrong})
        text = str(caught.value)
        assert text.startswith(f"unknown {name} ")
        assert all(repr(choice) in text for choice in CHOICES[name])


def test_no_choice_is_a_plain_text() -> None:
    plain = {
        f"{owner.__name__}.{name}"
        for owner in PUBLIC
        for name in parameters(owner)
        if str in alternatives(owner, name) and name not in TEXTS
    }
    assert plain == set()


@pytest.mark.parametrize("owner", [BatchStream, Loader, WindowSampler])
def test_shuffle_as_data_loader_takes_it(build_pack: BuildPack, owner: Any) -> None:
    root = build_pack([[4, 4], [4]]).root
    for given, meant in ((True, "window"), (False, "none")):
        one, other = made(owner, root, shuffle=given), made(owner, root, shuffle=meant)
        assert (one.shuffle, one.tail, one.seed) == (other.shuffle, other.tail, other.seed)
        assert one.shuffle == meant
        if owner is WindowSampler:
            assert list(one) == list(other)
        else:
            assert [images.tolist() for images, _ in one] == [
                images.tolist() for images, _ in other
            ]


@pytest.mark.parametrize("owner", [PackedDataset, Loader])
@pytest.mark.parametrize(
    "split", ["vall", "", True, 0, 1.5, b"train", ["train"], {"train"}, Path()]
)
@pytest.mark.parametrize("more", [{}, {"stage": "copy"}, {"preload": "shm"}])
def test_a_split_is_a_name(
    build_pack: BuildPack, tmp_path: Path, owner: Any, split: Any, more: dict[str, Any]
) -> None:
    root = build_pack([[4]]).root
    more = {"stage": tmp_path / "copy"} if "stage" in more else more
    with pytest.raises(UsageError, match=r"has no split .*\(.*train"):
        made(owner, root, split=split, **more)
    with pytest.raises(UsageError, match=r"has no split None \(known: train\)"):
        PackedDataset(root, split=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["batch_size", "window", "seed", "threads", "ahead"])
@pytest.mark.parametrize("wrong", [None, "32", 32.0, [32], True])
def test_numbers_are_whole_numbers(build_pack: BuildPack, name: str, wrong: Any) -> None:
    if name == "threads" and wrong is None:
        return  # as many as there are cores
    options: dict[str, Any] = {"batch_size": 2, name: wrong}
    with pytest.raises(UsageError, match=f"^invalid {name} .*whole number"):
        Loader(build_pack([[4]]).root, **options)


def test_one_text_is_not_taken_for_its_letters(build_pack: BuildPack, tmp_path: Path) -> None:
    root = build_pack([[4]]).root
    dataset = PackedDataset(root)
    for call, name in (
        (lambda: BatchStream(dataset, 2, fields="image"), "fields"),
        (lambda: Loader(root, batch_size=2, fields="image"), "fields"),
        (lambda: dataset.select(classes="class0"), "classes"),
        (lambda: PackWriter(tmp_path / "out", classes="ab"), "classes"),
    ):
        with pytest.raises(
            UsageError, match=rf"invalid {name} '\w+': one text \({name}=\('\w+',\)"
        ):
            call()


#: torch's own signatures, as they are today: what users write first.
TORCH = {
    *parameters(DataLoader),
    *parameters(DistributedSampler),
} - {"dataset", "self"}
TORCHVISION = {"loader", "is_valid_file", "allow_empty", "train", "download"}


@pytest.mark.parametrize("owner", READERS)
def test_arguments_of_torch_say_where_they_belong(build_pack: BuildPack, owner: Any) -> None:
    root = build_pack([[4]]).root
    names = TORCH | (TORCHVISION if owner is PackedDataset else set())
    for name in sorted(names - set(parameters(owner))):
        with pytest.raises(UsageError) as caught:
            made(owner, root, **{name: 2})
        text = str(caught.value)
        assert text.startswith(f"{owner.__name__} has no argument {name} (")
        assert "known:" not in text, text  # a hint of its own, not the list of all arguments
        assert "did you mean" not in text, text
        assert "\n" not in text
        for named in re.findall(r"\b([a-z_]+)=", text):
            assert any(named in parameters(one) for one in [*READERS, DataLoader]), text


@pytest.mark.parametrize("owner", PUBLIC)
def test_arguments_of_packers_other_classes_name_the_class(
    build_pack: BuildPack, owner: Any
) -> None:
    root = build_pack([[4]]).root
    others = READERS if owner is not PackWriter else [PackWriter]
    for other in others:
        for name in sorted(set(parameters(other)) - set(parameters(owner)) - TORCH):
            with pytest.raises(
                UsageError, match=rf"{owner.__name__} has no argument {name} \("
            ) as e:
                made(owner, root, **{name: 2})
            assert re.search(rf"\b({'|'.join(one.__name__ for one in READERS)})\(", str(e.value))


@pytest.mark.parametrize("owner", PUBLIC)
def test_misspelt_arguments_are_suggested(build_pack: BuildPack, owner: Any) -> None:
    root = build_pack([[4]]).root
    for name in parameters(owner):
        misspelt = name[:-1] + "_" + name[-1]
        with pytest.raises(UsageError, match=rf"no argument {misspelt} \(did you mean {name}=…"):
            made(owner, root, **{misspelt: 1})


def test_options_of_a_conversion_go_to_the_writers_options(tmp_path: Path) -> None:
    make: Any = PackWriter
    with pytest.raises(UsageError, match=r"options=ConvertOptions\(codec=…\)\) takes it"):
        make(tmp_path / "out", codec="png")
    writer: Any = PackWriter(tmp_path / "out", fields={"caption": "txt"})
    with pytest.raises(UsageError, match=r"PackWriter\.write has no argument caption .*fields="):
        writer.write(image=b"", key="a", caption=b"text")
    writer.abort()


@pytest.mark.parametrize("owner", [*PUBLIC, *BUILT_IN])
def test_each_argument_is_documented_where_it_is(owner: Any) -> None:
    """An editor shows the docstring of the class, not those of others that it refers to."""
    text = inspect.getdoc(owner) or ""
    section = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    described = re.findall(r"^    (\w+): \S", section[1], re.MULTILINE) if section else []
    assert sorted(described) == sorted(parameters(owner))
    if owner in PUBLIC:
        assert "Raises:\n" in text
        assert "UsageError: " in text
    for name in parameters(owner):
        for choice in choices(owner, name):
            assert f'"{choice}"' in text, f"{name}: {choice}"


@pytest.mark.parametrize("owner", [PackedDataset, BatchStream, Loader, WindowSampler])
def test_the_rule_of_transforms_is_in_each_docstring(owner: Any) -> None:
    text = " ".join((inspect.getdoc(owner) or "").split())
    assert "built-in transforms" in text
    assert "called with what `decode` says" in text


def test_common_calls_pass_the_type_checker(build_pack: BuildPack) -> None:
    """mypy checks this file: it must accept what users write, and refuse what is wrong."""
    root, training = build_pack([[4, 4]]).root, True
    dataset = PackedDataset(str(root), "train", transform=CenterCrop(4), decode="numpy")
    BatchStream(dataset, 2, shuffle=training, tail="keep" if training else "drop")
    BatchStream(dataset, 2, shuffle="window" if training else "none", fields=["image", "key"])
    Loader(root, batch_size=2, transform=[CenterCrop(4), len], process=False, device="cpu")
    Loader(dataset, batch_size=2, memory_format=torch.contiguous_format, preload=None)
    WindowSampler(dataset, batch_size=2, shuffle=True, tail=None)
    options: dict[str, Any] = {"decode": "pil", "on_error": "skip"}
    PackedDataset(root, target_transform=lambda label: label + 1, **options)
    as_torchs: Dataset[Any] = dataset  # type: ignore[assignment]  # known where torch is loaded
    assert len(DataLoader(as_torchs, batch_size=2)) == 4
    with pytest.raises(UsageError, match="unknown shuffle"):
        BatchStream(dataset, 2, shuffle="windw")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no argument drop_last"):
        BatchStream(dataset, 2, drop_last=True)  # type: ignore[call-arg]
