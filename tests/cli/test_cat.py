import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

from packer.writer import PackWriter
from tests.fixtures import MakeTree, Run


@pytest.mark.parametrize("codec", ["jpeg", "raw"])
def test_cat_writes_a_file_that_other_programs_read(
    run: Run, make_tree: MakeTree, codec: str
) -> None:
    make_tree()
    options = ("--resize", "48", "--resize-mode", "crop", "--codec", codec, "--jobs", 1)
    pack = run("convert", "photos", *options).stdout.strip()
    key = "002.class1/002_0003.jpg"
    data = subprocess.run(
        [sys.executable, "-m", "packer", "cat", pack, key], capture_output=True, check=True
    ).stdout
    pixels = np.load(io.BytesIO(data)) if codec == "raw" else simplejpeg.decode_jpeg(data)
    assert pixels.shape == (48, 48, 3)
    wrong = run("cat", pack, "001.class0/002_0003.jpg")
    assert wrong.returncode == 2
    assert f"did you mean '{key}'?" in wrong.stderr


#: Names that are hard to print, or look like another one as it is printed.
ODD = [
    b"a/tab\there.jpg",
    b"a/tab\\there.jpg",
    b"a/tab\\\\there.jpg",
    b"a/new\nline.jpg",
    b"a/return\r.jpg",
    b"a/bell\x07\x1b[31m\x7f.jpg",
    b"a/\xff\xfe.jpg",
    b"a/\\xff\\xfe.jpg",
    b"a/\xc2\x9b\xe2\x80\xae.jpg",
    b"a/\xe6\x97\xa5 x.jpg",
    b"-a/-b.jpg",
    b"\\x2da/-b.jpg",
    b"--help",
    b" a ",
    b"a/end\\",
]


@pytest.fixture
def odd_pack(tmp_path: Path) -> Path:
    with PackWriter(tmp_path / "odd", classes=["tab\there"]) as writer:
        for number, path in enumerate(ODD):
            pixels = np.full((8, 8, 3), 10 * number, np.uint8)
            split = "train" if number % 2 else "val"
            writer.write(image=pixels, label=0, key=os.fsdecode(path), split=split)
    return tmp_path / "odd"


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_cat_takes_what_ls_prints(run: Run, odd_pack: Path, locale: str) -> None:
    env = {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    _, *lines = run("ls", odd_pack, **env).stdout.splitlines()
    assert len(lines) == len(ODD)
    assert all(char.isprintable() or char == "\t" for line in lines for char in line)
    found: dict[int, str] = {}
    for line in lines[::2] if locale == "C" else lines:
        key, split, _, shown, *_ = line.split("\t")
        assert shown == r"tab\there"
        picture = _cat(odd_pack, key, env)
        [number] = {round(float(simplejpeg.decode_jpeg(picture).mean()) / 10)}
        assert split == ("train" if number % 2 else "val")
        assert found.setdefault(number, key) == key
    assert len(found) == len(lines[::2] if locale == "C" else lines)


def test_cat_takes_a_key_as_it_is_where_no_other_is_written_so(run: Run, odd_pack: Path) -> None:
    raw = {
        path: run("cat", "--raw", odd_pack, "--", os.fsdecode(path)).returncode for path in ODD[::4]
    }
    assert set(raw.values()) == {0}
    assert run("cat", odd_pack, "a/end\\").returncode == 0
    assert run("cat", odd_pack, "a/end\\", "--split", "train").returncode == 2
    wrong = run("cat", odd_pack, "a/none\x1b.jpg")
    assert wrong.returncode == 2
    assert "\x1b" not in wrong.stderr


def _cat(pack: Path, key: str, env: dict[str, str]) -> bytes:
    return subprocess.run(
        [sys.executable, "-m", "packer", "cat", pack, os.fsencode(key)],
        env={**os.environ, **env}, capture_output=True, check=True,
    ).stdout  # fmt: skip
