"""With folders that really hold broken, missing or doubled libraries, in processes of their own."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import cv2
import numpy as np
import PIL.Image
import pytest
import simplejpeg

import packer
from packer import installing
from packer.files import mapped
from packer.imaging import libraries
from packer.imaging.native import complaint, cutting, fastresize, pieces, region

_REPAIR = f"{sys.executable} -m pip uninstall -y pillow pillow-simd"


def _run(code: str, site: Path, *, alone: bool) -> str:
    """What a Python prints that finds `site` first, or no other packages at all. The code's only
    argument is the folder that `site` lies in.
    """
    flags = ["-S"] if alone else []
    command = [sys.executable, *flags, "-W", "error", "-c", code, str(site.parent)]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        command, env=environment, check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == ""
    return done.stdout


def _site(folder: Path, names: Iterable[str]) -> Path:
    """A folder of packages: packer, and links to these of the installed ones."""
    folder.mkdir()
    (folder / "packer").symlink_to(Path(packer.__file__).parent)
    homes = {
        "numpy": np.__file__,
        "simplejpeg": simplejpeg.__file__,
        "cv2": cv2.__file__,
        "PIL": PIL.__file__,
    }
    for name in names:
        home = Path(homes[name]).parent
        for entry in (home, home.with_name(f"{name}.libs"), home.with_name("opencv_python.libs")):
            if entry.exists() and not (folder / entry.name).exists():
                (folder / entry.name).symlink_to(entry)
    return folder


_REQUIRE = """
from packer.errors import MissingDependency
from packer.imaging.libraries import report, require_converting
try:
    require_converting()
except MissingDependency as error:
    print(error.exit_code, error)
print(*report(), sep="\\n")
"""


def test_all_is_well_here() -> None:
    libraries.require_converting()
    versions = libraries.versions()
    assert versions["simplejpeg"] == simplejpeg.__version__
    assert versions["opencv"] == cv2.__version__
    assert versions["pillow-simd" if libraries.is_simd() else "pillow"] == PIL.__version__
    assert all(versions.values())


def test_the_report_names_extensions_that_were_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = [region, fastresize, pieces, cutting, mapped, complaint]
    names = ["region decoding", "resizing", "both at once", "cutting", "mapping", "unusual JPEGs"]
    for built in range(len(names) + 1):
        for number, module in enumerate(modules):
            native = libraries if number < built else None
            monkeypatch.setattr(module.NATIVE, "module", native)
        line = f"own C extensions: {', '.join(names[:built]) or 'none'}"
        line += f"; not built: {', '.join(names[built:])}" if built < len(names) else ""
        assert line in libraries.report()


def test_the_report_names_libraries_versions_and_jpeg_back_ends() -> None:
    report = "\n".join(libraries.report())
    assert f"simplejpeg {simplejpeg.__version__}" in report
    assert PIL.__version__ in report
    assert re.search(r"OpenCV \d\S*: JPEG .*jpeg", report)
    assert re.search(r"(pillow-simd|Pillow) \d\S*: libjpeg", report)
    assert "own C extensions: " in report
    if libraries.is_simd():
        assert re.search(r"resizing with (AVX2|SSE4)", report)


def test_pillow_over_pillow_simd_is_half_of_each(tmp_path: Path) -> None:
    """A Python part of one version over the C part of another."""
    site = tmp_path / "site"
    shutil.copytree(Path(PIL.__file__).parent, site / "PIL")
    (site / "PIL" / "_version.py").write_text('__version__ = "9.0.1"\n', encoding="utf-8")
    first, *report = _run(_REQUIRE, site, alone=False).splitlines()
    assert first.startswith(f"2 Pillow is broken ({site}/PIL/__init__.py): ImportError: ")
    assert _REPAIR in first
    assert any(_REPAIR in line for line in report)


def test_a_pillow_without_its_python_files_is_broken_not_missing(tmp_path: Path) -> None:
    site = _site(tmp_path / "site", ["numpy", "simplejpeg", "cv2"])
    (site / "PIL").mkdir()
    (site / "PIL" / "features.py").write_text("", encoding="utf-8")
    first = _run(_REQUIRE, site, alone=True).splitlines()[0]
    assert "Pillow is broken" in first
    assert _REPAIR in first


@pytest.mark.parametrize("missing", ["PIL", "cv2"])
def test_what_is_missing_is_named_with_the_line_that_installs_it(
    missing: str, tmp_path: Path
) -> None:
    names = {"numpy", "simplejpeg", "cv2", "PIL"} - {missing}
    first = _run(_REQUIRE, _site(tmp_path / "site", names), alone=True).splitlines()[0]
    assert "not installed" in first
    assert first.endswith(f"({install_line(missing, tmp_path / 'site')})")


def install_line(module: str, site: Path) -> str:
    """Of that environment."""
    code = f"from packer.installing import install_line; print(install_line({module!r}))"
    return _run(code, site, alone=True).strip()


def test_two_pillows_are_warned_of_once_with_the_repair_line(tmp_path: Path) -> None:
    """Works if PIL works: a warning, no error."""
    for name, version in (("Pillow", "11.0.0"), ("pillow_simd", "9.5.0.post1")):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (folder / "METADATA").write_text(metadata, encoding="utf-8")
    code = "from packer.imaging import libraries as l; l.require_converting()"
    lines = _run(f"{code}; print(l.overlap_warning())", tmp_path, alone=False).splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("both Pillow and pillow-simd are installed; in use is ")
    assert lines[0].endswith(libraries.repair_line())


def test_one_pillow_is_nothing_to_warn_of() -> None:
    assert libraries.overlap_warning() == ""


@pytest.mark.skipif(not installing.is_x86(), reason="pillow-simd is for x86")
def test_the_repair_line_fits_processor_compiler_and_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pip = f"{sys.executable} -m pip"
    monkeypatch.setattr(libraries, "_processor_has_avx2", lambda: True)
    monkeypatch.setattr(installing, "can_compile", lambda: True)
    monkeypatch.setattr(libraries, "version", lambda name: "1.0")
    assert libraries.repair_line() == (
        f'{pip} uninstall -y pillow pillow-simd && CC="cc -mavx2" {pip} install --no-cache-dir'
        " --force-reinstall --no-deps pillow-simd"
    )
    monkeypatch.setattr(libraries, "_processor_has_avx2", lambda: False)
    assert "mavx2" not in libraries.repair_line()
    for module, name, value in (
        (installing, "can_compile", False),
        (platform, "machine", "aarch64"),
        (libraries, "version", ""),  # pillow-simd was never here
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, lambda *_, value=value: value)
            assert libraries.repair_line().endswith("--no-deps pillow")


_READ = """
import sys
from pathlib import Path
import numpy as np
import simplejpeg
from packer.errors import MissingDependency
from packer.settings.options import ImageOptions
from packer.codecs import load_codec
pixels = np.full((6, 9, 3), 200, np.uint8)
payload = simplejpeg.encode_jpeg(pixels)
print(load_codec("jpeg").decode(payload, 9, 6).shape)
print(load_codec("raw").decode(pixels.tobytes(), 9, 6).shape)
for name in ("png", "webp"):
    data = Path(sys.argv[1], "picture." + name).read_bytes()
    try:
        load_codec(name).decode(data, 9, 6)
    except MissingDependency as error:
        print(error)
print("PIL" in sys.modules, "cv2" in sys.modules)
"""


def test_reading_needs_numpy_and_simplejpeg_alone(tmp_path: Path) -> None:
    site = _site(tmp_path / "site", ["numpy", "simplejpeg"])
    for kind in ("png", "webp"):
        PIL.Image.new("RGB", (9, 6)).save(tmp_path / f"picture.{kind}")
    lines = _run(_READ, site, alone=True).splitlines()
    assert lines[:2] == ["(6, 9, 3)", "(6, 9, 3)"]
    assert len(lines) == 5
    assert all(line.endswith("-m pip install opencv-python-headless)") for line in lines[2:4])
    assert lines[4] == "False False"
