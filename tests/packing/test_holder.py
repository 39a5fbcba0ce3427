import dataclasses
import os
import subprocess
import sys

import pytest

from packer.packing.holder import myself, read_holder


def test_a_holder_survives_its_file_and_names_itself() -> None:
    holder = myself("SLURM job 12")
    assert read_holder(holder.to_bytes()) == holder
    assert f"process {os.getpid()}, SLURM job 12, since 20" in str(holder)
    assert ", since" in str(myself()) and ", ," not in str(myself())
    assert myself().token != myself().token


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"pid": 1}'])
def test_less_than_a_holder_is_none(content: bytes) -> None:
    assert read_holder(content) is None


@pytest.mark.parametrize("pid", ["7", 0, -1, 1 << 31, 10**30, True, None, 7.0, [7]])
def test_a_number_that_is_none_is_no_holder(pid: object) -> None:
    """0 and less are groups of processes, ours among them, and would be found alive."""
    odd = dataclasses.replace(myself(), pid=pid)  # type: ignore[arg-type]
    assert read_holder(odd.to_bytes()) is None


@pytest.mark.parametrize("name", ["token", "host", "kernel", "started", "job", "since"])
def test_text_that_is_none_is_no_holder(name: str) -> None:
    for value in (None, 5, ["a"], {"a": 1}):
        odd = dataclasses.replace(myself(), **{name: value})  # type: ignore[arg-type]
        assert read_holder(odd.to_bytes()) is None


@pytest.mark.parametrize("content", [b"[" * 1_000_000, b'{"a":' * 1_000_000, b"null", b'"a"'])
def test_rubbish_is_no_holder(content: bytes) -> None:
    assert read_holder(content) is None


def test_who_lives_here() -> None:
    holder = myself()
    assert holder.is_here() and holder.lives_here()
    assert not dataclasses.replace(holder, started="1").lives_here()
    assert not dataclasses.replace(holder, kernel="another").is_here()
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert not dataclasses.replace(holder, pid=process.pid).lives_here()


def test_a_holder_is_safe_to_print() -> None:
    """Control characters change a terminal's title, or clear it."""
    odd = dataclasses.replace(myself(), host="a\x1b]0;owned\x07", job="b\x1b[2J\n", since="c\x9b")
    assert read_holder(odd.to_bytes()) == odd
    text = str(odd)
    assert text.isprintable() and r"a\x1b]0;owned\x07" in text and r"b\x1b[2J\n" in text
    assert read_holder(dataclasses.replace(myself(), host="a" * 1001).to_bytes()) is None
