"""Advice on installing, with real folders of installed or missing packages, in new processes."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import packer
from packer import installing

#: Module → the distribution that has it.
ALL = {
    "PIL": "Pillow",
    "cv2": "opencv-python-headless",
    "lmdb": "lmdb",
    "h5py": "h5py",
    "joblib": "joblib",
    "psutil": "psutil",
}
PIP = f"{sys.executable} -m pip install"

x86_only = pytest.mark.skipif(not installing.is_x86(), reason="pillow-simd is for x86")


def line(folder: Path, module: str, there: dict[str, str], *, compiler: bool) -> str:
    """What `install_line` says where only these modules are installed, by their distributions."""
    (folder / "packer").symlink_to(Path(packer.__file__).parent)
    for name, distribution in there.items():
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("")
        metadata = folder / f"{distribution.replace('-', '_')}-1.0.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    code = "import sys; from packer import installing\n"
    if compiler:
        code += "installing.can_compile = lambda: True\n"
    code += "print(installing.install_line(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, module],
        env={"PATH": os.devnull, "PYTHONPATH": str(folder)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def without(*names: str, **other: str) -> dict[str, str]:
    return {name: dist for name, dist in ALL.items() if name not in names} | other


@x86_only
@pytest.mark.parametrize(
    ("module", "there", "compiler", "wanted"),
    [
        # Nothing is there: all of it, the faster way if it can be compiled.
        ("PIL", {}, True, "'packer-shards[convert]'"),
        ("PIL", {}, False, "'packer-shards[convert-pillow]'"),
        ("lmdb", {}, False, "'packer-shards[convert-pillow]'"),
        # Pillow is there, and stays as it is.
        ("cv2", {"PIL": "Pillow"}, True, "opencv-python-headless lmdb h5py joblib psutil"),
        ("cv2", {"PIL": "Pillow"}, False, "opencv-python-headless lmdb h5py joblib psutil"),
        ("h5py", {"PIL": "pillow-simd"}, True, "opencv-python-headless lmdb h5py joblib psutil"),
        ("joblib", without("joblib", "psutil", "lmdb"), True, "lmdb joblib psutil"),
        # One library: that one.
        *((name, without(name), False, ALL[name]) for name in ALL),
        ("PIL", without("PIL"), True, "pillow-simd"),
        ("lmdb", without("lmdb", cv2="opencv-python"), True, "lmdb"),
        # An OpenCV that the extra would put another one over.
        ("PIL", {"cv2": "opencv-python-headless"}, True, "pillow-simd lmdb h5py joblib psutil"),
        ("PIL", {"cv2": "opencv-contrib-python"}, False, "Pillow lmdb h5py joblib psutil"),
        ("PIL", {"cv2": "opencv-python"}, False, "Pillow lmdb h5py joblib psutil"),
        ("PIL", {"cv2": "opencv-python"}, True, "'packer-shards[convert]'"),
    ],
)
def test_the_line_fits_the_environment(
    module: str, there: dict[str, str], compiler: bool, wanted: str, tmp_path: Path
) -> None:
    assert line(tmp_path, module, there, compiler=compiler) == f"{PIP} {wanted}"


def test_what_reading_needs_is_one_library() -> None:
    assert installing.install_only("cv2") == f"{PIP} opencv-python-headless"
    assert installing.install_only("torch") == f"{PIP} torch"


def test_without_a_compiler_nothing_can_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    assert not installing.can_compile()
    assert installing.resizer() == "Pillow"


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_with_headers_it_can(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And not without them: where the compiler is, they may be missing."""
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "Python.h").write_text("")
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / name))
    (tmp_path / "include" / "jpeglib.h").write_text("")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert installing.can_compile()
    (tmp_path / "include" / "Python.h").unlink()
    assert not installing.can_compile()


def test_other_processors_take_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(installing, "can_compile", lambda: True)
    assert installing.resizer() == "Pillow"
