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


def test_a_number_that_is_none_is_no_holder() -> None:
    odd = dataclasses.replace(myself(), pid="7")  # type: ignore[arg-type]
    assert read_holder(odd.to_bytes()) is None


def test_who_lives_here() -> None:
    holder = myself()
    assert holder.is_here() and holder.lives_here()
    assert not dataclasses.replace(holder, started="1").lives_here()
    assert not dataclasses.replace(holder, kernel="another").is_here()
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert not dataclasses.replace(holder, pid=process.pid).lives_here()
