"""The card: its snippets run in the pack's folder, and `datasets` can read its front matter."""

from __future__ import annotations

import fnmatch
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from packer import registry
from packer.formats import load_format
from packer.pack.columns import ShardRecord
from packer.pack.manifest import Manifest, SplitRecord
from packer.packing.card import card
from packer.settings.options import ConvertOptions
from packer.types import Field
from packer.writer import PackWriter

FIELDS = (Field("image", "image", "jpg", "jpeg"), Field("label", "label", "cls"))
Write = Callable[..., Path]


def _manifest(
    classes: tuple[str, ...] = ("a", "b"),
    fields: tuple[Field, ...] = FIELDS,
    splits: tuple[str, ...] = ("train",),
    name: str = "photos",
) -> Manifest:
    def split(name: str) -> SplitRecord:
        shard = ShardRecord(f"{name}-000000.tar", 1, "ab" * 32, (0, 0), 3, 1)
        return SplitRecord.of_shards(name, [shard])

    described = {name: split(name) for name in splits} | {"none": SplitRecord.of_shards("none", [])}
    return Manifest(name, "tar", 4, fields, classes, classes, described)


def _front_matter(manifest: Manifest) -> Any:
    _, front, _ = card(manifest).decode().split("---\n", 2)
    return yaml.safe_load(front)


def _features(manifest: Manifest) -> dict[str, Any]:
    front = _front_matter(manifest)
    return {entry.pop("name"): entry for entry in front["dataset_info"]["features"]}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Makes a pack of ten pictures in two splits, the last one without label and caption."""

    def write(format_name: str = "tar", codec: str = "jpeg") -> Path:
        out = tmp_path / f"{format_name}-{codec}"
        options = ConvertOptions(
            format=format_name, codec=codec, resize="16x16", resize_mode="exact",
            batch_size=2, shard_size=1_000,
        )  # fmt: skip
        draw = np.random.default_rng(0)
        with PackWriter(
            out, classes=["no: [x]", "yes"], options=options, fields={"caption": "txt"}
        ) as writer:
            for number in range(10):
                full = number < 9
                writer.write(
                    image=draw.integers(0, 256, (16, 16, 3), np.uint8),
                    label=number % 2 if full else -1,
                    key=f"{number}.jpg",
                    split="train" if number % 3 else "val",
                    fields={"caption": b"words"} if full else {},
                )
        return out

    return write


def test_names_splits_and_classes() -> None:
    front = _front_matter(_manifest(splits=("train", "val")))
    [config] = front["configs"]
    assert config["config_name"] == "default"
    assert config["data_files"] == [
        {"split": "train", "path": "train-*.tar"},
        {"split": "val", "path": "val-*.tar"},
    ]  # an empty split has no file to name
    features = _features(_manifest())
    assert features["cls"] == {"dtype": {"class_label": {"names": {"0": "a", "1": "b"}}}}
    assert features.keys() == {"jpg", "cls", "__key__", "__url__"}


@pytest.mark.parametrize(
    "name",
    [
        "a: b",
        "- x",
        "'",
        '"',
        "#",
        "yes",
        "null",
        "1",
        "1e3",
        "a\nb",
        " ",
        "",
        "ä日",
        "{}",
        "---",
        "\t",
    ],
)
def test_names_of_classes_mean_nothing_to_yaml(name: str) -> None:
    names = _features(_manifest((name, "other")))["cls"]["dtype"]["class_label"]["names"]
    assert names == {"0": name.replace("\n", r"\n").replace("\t", r"\t"), "1": "other"}


def test_names_that_are_no_utf8_or_come_twice() -> None:
    names = _features(_manifest(("\udcff", "x")))["cls"]["dtype"]["class_label"]["names"]
    assert names["0"] == r"\xff"
    assert _features(_manifest(("x", "x")))["cls"] == {"dtype": "int64"}
    assert "cls" not in _features(_manifest(()))


def test_fields_that_datasets_decodes_are_left_to_it() -> None:
    boxes = (*FIELDS, Field("boxes", "bytes", "json"))
    assert "dataset_info" not in _front_matter(_manifest(fields=boxes))
    extra = (*FIELDS, Field("text", "bytes", "txt"), Field("mask", "bytes", "bin"))
    features = _features(_manifest(fields=extra))
    assert (features["txt"], features["bin"]) == ({"dtype": "string"}, {"dtype": "binary"})


def test_a_split_may_have_any_name() -> None:
    """`datasets` keeps "all" for itself."""
    [config] = _front_matter(_manifest(splits=("all",)))["configs"]
    assert config["data_files"] == [{"split": "all_", "path": "all-*.tar"}]


def test_a_name_cannot_end_the_front_matter() -> None:
    text = card(_manifest(name="a\n---\n# b")).decode()
    assert r"# a\n---\n# b" in text.splitlines()


@pytest.mark.parametrize("format_name", registry.names("formats"))
def test_snippets_run_in_the_packs_folder(write: Write, format_name: str) -> None:
    pack = write(format_name)
    text = (pack / "README.md").read_text()
    module = load_format(format_name)
    assert text.startswith("---\n") == module.WEBDATASET
    snippets = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(snippets) == 1 + module.READING.count("```python")
    for snippet in snippets:
        if "from datasets" in snippet:
            continue
        check = "\nassert len(globals().get('images', 'xx')) == 2"
        subprocess.run([sys.executable, "-c", snippet + check], cwd=pack, check=True, timeout=60)


def test_patterns_match_shards_and_nothing_else(write: Write) -> None:
    pack = write()
    front = yaml.safe_load((pack / "README.md").read_text().split("---\n")[1])
    files = [path.name for path in pack.iterdir()]
    for entry in front["configs"][0]["data_files"]:
        shards = sorted(fnmatch.filter(files, entry["path"]))
        count = next(n for n in itertools.count() if f"{entry['split']}-{n:06d}.tar" not in files)
        assert shards == [f"{entry['split']}-{n:06d}.tar" for n in range(count)]


_LOAD = """
import json, sys
from datasets import load_dataset
found = {}
for streaming in (False, True):
    for split, rows in load_dataset(sys.argv[1], streaming=streaming).items():
        rows = list(rows)
        found[f"{split} {streaming}"] = [[row["cls"], row["txt"]] for row in rows]
names = load_dataset(sys.argv[1], split="train").features["cls"].names
print(json.dumps([found, names]))
"""


@pytest.mark.parametrize("codec", ["jpeg", "png", "raw"])
def test_hugging_face_loads_a_pack(write: Write, tmp_path: Path, codec: str) -> None:
    pytest.importorskip("datasets")
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _LOAD, str(write(codec=codec))],
        env=env, check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    found, names = json.loads(done.stdout.splitlines()[-1])
    rows = [[n % 2, "words"] if n < 9 else [None, None] for n in range(10)]
    val = [row for number, row in enumerate(rows) if not number % 3]
    assert found["val False"] == found["val True"] == val
    assert len(found["train False"]) == 6
    assert names == ["no: [x]", "yes"]
