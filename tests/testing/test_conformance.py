"""The distribution of docs/extending.md, installed by pip and used: from the outside, as it is."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from tests.fixtures import Run

ROOT = Path(__file__).parents[2]
_FILE = re.compile(r"`([\w./]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TRANSFORM = re.compile(r"```python\n(from packer.reader import.*?)^```$", re.MULTILINE | re.DOTALL)
#: As for the suites of packer itself: the suite of a plug-in passes without a warning.
_PYTEST = ("-q", "-W", "error", "-p", "no:cacheprovider")


def document() -> str:
    return (ROOT / "docs" / "extending.md").read_text()


def run_in(
    folder: Path, *command: str, path: Path | None, code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run Python with what is installed in `path`."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    return done


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the document."""
    folder = tmp_path_factory.mktemp("toy")
    files = dict(_FILE.findall(document()))
    assert len(files) == 6
    for name, text in {**files, "packer_toy/__init__.py": ""}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def install(project: Path, target: Path) -> Path:
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    run_in(project, "-m", "pip", "install", "-q", *offline, "--target", str(target), ".", path=None)
    return target


@pytest.fixture(scope="module")
def installed(project: Path) -> Path:
    """Where pip has installed the distribution."""
    return install(project, project / "site")


@pytest.fixture(scope="module")
def packs(project: Path, installed: Path, draw: Callable[..., bytes]) -> Path:
    """A folder with a database of pictures, and packs made of it."""
    folder = project / "work"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "photos.sqlite")) as database, database:
        database.execute("CREATE TABLE files(path BLOB, content BLOB)")
        for number in range(12):
            path = b"%s/%02d.jpg" % (b"cat" if number % 2 else b"dog", number)
            row = (path, draw(number, 60 + number, 50))
            database.execute("INSERT INTO files VALUES (?, ?)", row)
        database.execute("INSERT INTO files VALUES (?, ?)", (b"cat/cut.jpg", b"\xff\xd8"))
    convert = "-m", "packer", "convert", "photos.sqlite", "--resize", "40", "--codec", "zpix"
    for backend, jobs in (("loky", "2"), ("spawned", "2"), ("sequential", "1")):
        options = ("--format", "joined", "--backend", backend, "--jobs", jobs)
        sizes = ("--batch-size", "4", "--shard-size", "40kB")
        run_in(folder, *convert, *options, *sizes, "-o", backend, path=installed)
    return folder


@pytest.fixture
def run(packs: Path, installed: Path) -> Run:
    """run(*command) with the plug-in; run(*command, path=None) without."""

    def run(*command: str, path: Path | None = installed, code: int = 0) -> object:
        return run_in(packs, *command, path=path, code=code)

    return run  # type: ignore[return-value]


def content(pack: Path) -> Mapping[str, bytes]:
    return {path.name: path.read_bytes() for path in pack.iterdir() if path.is_file()}


def test_it_passes_the_conformance_tests(project: Path, installed: Path) -> None:
    done = run_in(project, "-m", "pytest", *_PYTEST, "test_toy.py", path=installed)
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 80


def test_all_backends_make_the_same_pack(packs: Path) -> None:
    """Workers that fork, that start anew, and none: each finds the codec and the source."""
    made = content(packs / "loky")
    assert len([name for name in made if name.endswith(".joined")]) > 1
    assert made == content(packs / "spawned") == content(packs / "sequential")
    assert b'"codec zpix": "packer-toy 1.0"' in made["manifest.json"]
    assert b'"format joined": "packer-toy 1.0"' in made["manifest.json"]


def test_a_finished_pack_is_verified_and_read(run: Run, packs: Path) -> None:
    assert "12 samples" in run("-m", "packer", "info", "loky").stdout
    run("-m", "packer", "verify", "loky", "--decode", "--jobs", "2")
    assert len(run("-m", "packer", "verify", "loky", "--against", "photos.sqlite").stdout) > 0
    (packs / "read.py").write_text(_READ)  # spawned processes import it
    run("read.py")


_READ = """
from multiprocessing import get_context
from packer.reader import PackedDataset

def total(number):
    return int(dataset[number][0].sum())

dataset = PackedDataset("loky", "train", decode="numpy")
if __name__ == "__main__":
    alone = [total(number) for number in range(12)]
    with get_context("spawn").Pool(1) as pool:
        assert pool.map(dataset.__getitem__, [3])[0][0].sum() == alone[3]
        pool.close()
        pool.join()
"""


def test_the_transform_of_the_document(run: Run) -> None:
    [text] = _TRANSFORM.findall(document())
    run("-c", text.replace('"pack"', '"loky"') + "assert image.shape == (32, 32, 3)\n")


def test_it_is_listed(run: Run) -> None:
    text = run("-m", "packer", "convert", "--help").stdout
    for name in ("zpix", "joined", "spawned"):
        assert f"|{name}" in text or f"{name}|" in text
    lines = run("-m", "packer", "--version", "-v").stdout.splitlines()
    kinds = ["codec zpix", "format joined", "source sqlite", "backend spawned"]
    assert lines[-4:] == [f"{kind}: packer-toy 1.0" for kind in kinds]
    info = run("-m", "packer", "info", "loky").stdout
    assert "40 short, bicubic, zpix" in info
    assert "codec zpix packer-toy 1.0" in info


def test_a_name_like_it_is_suggested(run: Run) -> None:
    wrong = run("-m", "packer", "convert", "photos.sqlite", "--codec", "zpx", code=2).stderr
    assert "did you mean 'zpix'" in wrong


@pytest.mark.parametrize(
    "command",
    [
        ("-m", "packer", "verify", "loky", "--decode", "--jobs", "1"),
        ("-m", "packer", "cat", "loky", "cat/01.jpg"),
    ],
)
def test_without_it_an_error_says_what_to_install(run: Run, command: tuple[str, ...]) -> None:
    error = run(*command, path=None, code=2).stderr
    assert "codec 'zpix' is part of packer-toy 1.0, which is not installed" in error
    assert "pip install packer-toy" in error
    assert "Traceback" not in error


def test_without_it_what_needs_no_decoding_works(run: Run) -> None:
    run("-m", "packer", "verify", "loky", path=None)
    assert len(run("-m", "packer", "ls", "loky", path=None).stdout.splitlines()) == 13
    assert "pip install packer-toy" in run("-m", "packer", "info", "loky", path=None).stdout
    run("-c", _BYTES, path=None)


_BYTES = """
from packer.errors import MissingDependency
from packer.reader import PackedDataset
assert isinstance(PackedDataset("loky", "train", decode="bytes")[0][0], bytes)
try:
    PackedDataset("loky", "train", decode="numpy")
except MissingDependency as error:
    assert "pip install packer-toy" in error.hint
else:
    raise AssertionError("it opened")
"""


def test_two_distributions_with_one_name(
    run: Run, project: Path, installed: Path, tmp_path: Path
) -> None:
    other = tmp_path / "site" / "packer_other-2.0.dist-info"
    shutil.copytree(installed, other.parent)
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: packer-other\nVersion: 2.0\n")
    (other / "entry_points.txt").write_text("[packer.codecs]\nzpix = other\njpeg = other\n")
    command = ("-m", "packer", "convert", "photos.sqlite", "-o", str(tmp_path / "x"))
    error = run(*command, "--codec", "zpix", path=other.parent, code=2).stderr
    assert "codec 'zpix' is offered by several distributions: packer-other and packer-toy" in error
    # A name of packer's own is packer's, whoever else offers it.
    run(*command, "--codec", "jpeg", path=other.parent)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bad = nowhere", "cannot be loaded: ModuleNotFoundError: No module named 'nowhere'"),
        ("bad = json", "lacks "),
        ("b.d = json", "invalid name"),
    ],
)
def test_a_plugin_that_does_not_load(run: Run, tmp_path: Path, line: str, message: str) -> None:
    metadata = tmp_path / "packer_bad-3.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: packer-bad\nVersion: 3.0\n")
    (metadata / "entry_points.txt").write_text(f"[packer.codecs]\n{line}\n")
    name = line.split(maxsplit=1)[0]
    command = ("-m", "packer", "convert", str(tmp_path), "--codec", name, "--resize", "8")
    error = run(*command, path=tmp_path, code=2).stderr
    assert f"codec {name!r} of packer-bad 3.0" in error
    assert message in error
    assert "Traceback" not in error
    report = run("-m", "packer", "--version", "-v", path=tmp_path).stdout
    assert message in report.splitlines()[-1]


def test_missing_pytest_is_named(project: Path) -> None:
    script = "import sys; sys.modules['pytest'] = None; import packer.testing"
    error = run_in(project, "-c", script, path=None, code=1).stderr
    assert "packer.testing needs pytest, which is not installed" in error.splitlines()[-1]
