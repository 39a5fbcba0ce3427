"""Files that a PackWriter keeps when an exception leaves it, and how it continues."""

import dataclasses
import io
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from packer import registry
from packer.convert import ConvertOptions, convert_dataset
from packer.errors import SourceError, UsageError
from packer.pack.manifest import read_manifest
from packer.reader import PackedDataset
from packer.verify import VerifyOptions, verify_pack
from packer.writer import PackWriter


def _pixels(seed: int) -> Any:
    return np.full((30, 40, 3), 5 * seed, np.uint8)


SMALL = ConvertOptions(codec="png", batch_size=2, shard_size=1)  # a shard of each batch


def encode_png(pixels: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def tree(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def said(error: BaseException) -> str:
    return " ".join([*getattr(error, "__notes__", []), str(error.__cause__)])


def write_all(writer: PackWriter, numbers: Iterable[int], stop: int | None = None) -> None:
    for number in numbers:
        if number == stop:
            raise RuntimeError("mine")
        split = "val" if number % 3 == 2 else "train"
        writer.write(image=_pixels(number), key=str(number), label=number % 2, split=split)


def test_notes_are_kept_with_what_is_finished(tmp_path: Path) -> None:
    """In the manifest and the index, whether the writer was interrupted or not."""

    def write(out: Path, stop: int, *, resume: bool) -> None:
        with PackWriter(out, options=SMALL, resume=resume) as writer:
            for number in range(10):
                if number == stop:
                    raise RuntimeError("mine")
                gray = np.full((16, 16 + number, 3), 20 * number, np.uint8)
                writer.write(image=encode_png(gray) if number % 2 else gray, key=str(number))

    write(tmp_path / "whole" / "pack", 10, resume=False)
    with pytest.raises(RuntimeError, match="mine"):
        write(tmp_path / "broken" / "pack", 7, resume=False)
    write(tmp_path / "broken" / "pack", 10, resume=True)
    found = tree(tmp_path / "broken" / "pack")
    assert found == tree(tmp_path / "whole" / "pack")
    counts = read_manifest(tmp_path / "broken" / "pack").counts
    assert counts["notes"] == {"kept": 5}


@pytest.mark.parametrize("format_name", registry.names("formats"))
def test_what_is_finished_is_kept_and_gone_on_from(tmp_path: Path, format_name: str) -> None:
    options = dataclasses.replace(SMALL, format=format_name)
    arguments: dict[str, Any] = {"classes": ["a", "b"], "options": options}
    whole, out = tmp_path / "whole" / "pack", tmp_path / "broken" / "pack"
    with PackWriter(whole, **arguments) as writer:
        write_all(writer, range(20))
    with (
        pytest.raises(RuntimeError, match="mine") as caught,
        PackWriter(out, **arguments, resume=True) as writer,  # nothing is there: from the start
    ):
        write_all(writer, range(20), stop=13)
    kept = "6 finished shards with 12 samples are kept; PackWriter(…, resume=True)"
    assert kept in said(caught.value)
    for wrong, words in (
        ({}, "holds an unfinished pack.*resume=True"),
        ({"resume": True, "options": SMALL, "classes": ["a", "c"]}, "unfinished pack with"),
        ({"resume": True, "fields": {"note": "txt"}}, "unfinished pack with fields|note"),
    ):
        with pytest.raises(UsageError, match=words):
            PackWriter(out, **{**arguments, **wrong})
    with pytest.raises(SourceError, match="resume=True"):
        PackedDataset(out)
    finished = (out / "train-000000.index").stat().st_mtime_ns
    with PackWriter(out, **arguments, resume=True) as writer:
        write_all(writer, range(20))
    assert (out / "train-000000.index").stat().st_mtime_ns == finished
    assert tree(out) == tree(whole)
    assert not (out / ".packer").exists()
    assert not verify_pack(out, VerifyOptions(decode=True, jobs=1)).damage


def test_other_writes_are_not_gone_on_from(tmp_path: Path) -> None:
    def begin() -> PackWriter:
        return PackWriter(tmp_path / "pack", classes=["a", "b"], options=SMALL, resume=True)

    with pytest.raises(RuntimeError), begin() as writer:
        write_all(writer, range(20), stop=7)
    before = tree(tmp_path / "pack")
    for numbers, words in (
        ([1, 0], "key '1' was number 1 and is number 0 now"),
        (range(2), r"[1-9] samples of finished shards were not written again"),
    ):
        with pytest.raises(UsageError, match=words), begin() as writer:
            write_all(writer, numbers)
    assert tree(tmp_path / "pack") == before
    begin().abort()
    assert not list((tmp_path / "pack").iterdir())


KILLED = """
import os, sys
import numpy as np
from packer.convert import ConvertOptions, convert_dataset
from packer.writer import PackWriter
options = ConvertOptions(codec="png", batch_size=2, shard_size=1)
with PackWriter(sys.argv[1], options=options, resume=True) as writer:
    for number in range(9):
        if number == int(sys.argv[2]):
            os.kill(os.getpid(), 9)
        writer.write(image=np.full((4, 4, 3), number, np.uint8), key=str(number))
"""


def test_a_process_that_was_killed_is_gone_on_from(tmp_path: Path) -> None:
    def run(name: str, stop: int) -> int:
        command = [sys.executable, "-c", KILLED, str(tmp_path / name / "pack"), str(stop)]
        return subprocess.run(command, check=False, timeout=120).returncode

    assert (run("whole", -1), run("broken", 7), run("broken", -1)) == (0, -9, 0)
    assert tree(tmp_path / "broken" / "pack") == tree(tmp_path / "whole" / "pack")


def test_an_exception_before_anything_is_finished_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError) as caught, PackWriter(tmp_path / "pack") as writer:
        writer.write(image=_pixels(0), key="0")
        raise RuntimeError("mine")
    assert "nothing was finished, so nothing is kept" in said(caught.value)
    assert not list((tmp_path / "pack").iterdir())


def test_a_conversion_does_not_take_it_over(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), PackWriter(tmp_path / "pack", options=SMALL) as writer:
        writer.write(image=_pixels(0), key="0")
        writer.write(image=_pixels(1), key="1")
        raise RuntimeError("mine")
    before = tree(tmp_path / "pack")
    with pytest.raises(UsageError, match="holds an unfinished pack of a PackWriter"):
        convert_dataset("sample", tmp_path / "pack")
    assert tree(tmp_path / "pack") == before
