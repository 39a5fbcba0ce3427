"""Installed files: packages against folders, the wheel's content, names and extras."""

from __future__ import annotations

import configparser
import email.message
import email.parser
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata, resources
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
#: Package → folder, where that is not the package's own name.
FOLDERS = {
    "packer.configs": "configs",
    "packer.examples": "scripts/examples",
    "packer.recipes": "recipes",
    "packer.slurm": "scripts/slurm",
}
#: Built in place by an editable install; a wheel builds its own.
IGNORED = shutil.ignore_patterns("__pycache__", "*.so")
#: The C extensions, each one file beside its source.
EXTENSIONS = {
    str(path.relative_to(ROOT).with_suffix("")) for path in (ROOT / "packer").rglob("*.c")
}


@pytest.fixture(scope="module")
def config() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def build_wheel(tree: Path, **environment: str) -> Path:
    """A wheel, built offline from a copy: a build leaves folders where it runs."""
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    for name in ("packer", *FOLDERS.values()):
        shutil.copytree(ROOT / name, tree / name, ignore=IGNORED)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--wheel-dir", "dist", "."]
    done = subprocess.run(
        command,
        check=False,
        cwd=tree,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (path,) = (tree / "dist").iterdir()
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("tree"))) as archive:
        yield archive


@pytest.fixture(scope="module")
def wheel_metadata(wheel: zipfile.ZipFile) -> email.message.Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return email.parser.BytesParser().parsebytes(wheel.read(name))


def test_packages_are_the_folders(config: configparser.ConfigParser) -> None:
    """The list in setup.cfg is made by hand; a forgotten folder would be missing when installed."""
    listed = config["options"]["packages"].split()
    inits = [*(ROOT / "packer").rglob("__init__.py")]
    folders = [".".join(path.parent.relative_to(ROOT).parts) for path in inits]
    assert sorted(listed) == sorted([*folders, *FOLDERS])
    code = {path.parent for path in (ROOT / "packer").rglob("*.py")}
    assert code == {path.parent for path in inits}, "a folder of code without __init__.py"


def test_package_folders(config: configparser.ConfigParser) -> None:
    lines = config["options"]["package_dir"].split("\n")
    assert [line for line in lines if line] == [f"{name} = {FOLDERS[name]}" for name in FOLDERS]
    for folder in FOLDERS.values():
        assert (ROOT / folder / "__init__.py").exists()


def test_wheel_holds_everything(wheel: zipfile.ZipFile) -> None:
    expected = {"packer/py.typed", "packer/formats/README.md"}
    expected |= {str(path.relative_to(ROOT)) for path in (ROOT / "packer").rglob("*.py")}
    expected |= {str(path.relative_to(ROOT)) for path in (ROOT / "packer").rglob("*.pyi")}
    for package, folder in FOLDERS.items():
        data = {path.name for path in (ROOT / folder).iterdir() if path.is_file()}
        expected |= {f"{package.replace('.', '/')}/{name}" for name in data}
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    libraries = {name for name in held if name.endswith((".so", ".pyd"))}
    assert held - libraries == expected
    assert {name.partition(".")[0] for name in libraries} <= EXTENSIONS


def test_without_a_compiler_the_wheel_is_built_without_extensions(tmp_path: Path) -> None:
    """And where there are a compiler and headers, as here if they were installed, with them."""
    assert len(EXTENSIONS) == 6
    with zipfile.ZipFile(build_wheel(tmp_path, CC="no-such-compiler")) as archive:
        names = archive.namelist()
    assert "packer/imaging/native/region.py" in names
    assert not [name for name in names if name.endswith((".c", ".so", ".pyd"))]


def test_data_is_there(wheel: zipfile.ZipFile) -> None:
    for package in FOLDERS:
        prefix = package.replace(".", "/") + "/"
        packed = {name for name in wheel.namelist() if name.startswith(prefix)}
        installed = {prefix + path.name for path in resources.files(package).iterdir()}
        assert len(packed) > 1
        assert packed == {name for name in installed if not name.endswith("__pycache__")}


def test_an_installed_wheel_has_the_examples(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """Read from the wheel itself: nothing of the checkout is on the path."""
    assert wheel.filename is not None
    command = [sys.executable, "-S", "-m", "packer", "examples", "--all", str(tmp_path / "jobs")]
    path = os.pathsep.join([wheel.filename, *(entry for entry in sys.path if "packages" in entry)])
    environment = {**os.environ, "PYTHONPATH": path}
    subprocess.run(command, check=True, cwd=tmp_path, env=environment, timeout=60)
    copied = {str(path.relative_to(tmp_path / "jobs")) for path in (tmp_path / "jobs").rglob("*.*")}
    submit = tmp_path / "jobs" / "slurm" / "submit"
    assert {"examples/train.py", "examples/train_ddp.py", "slurm/convert.sh"} <= copied
    assert submit.read_bytes() == (ROOT / "scripts" / "slurm" / "submit").read_bytes()
    assert os.access(submit, os.X_OK)


def test_names(wheel_metadata: email.message.Message, wheel: zipfile.ZipFile) -> None:
    assert wheel_metadata["Name"] == "packer-shards"
    assert wheel_metadata["Requires-Python"] == ">=3.10"
    (name,) = (name for name in wheel.namelist() if name.endswith("/entry_points.txt"))
    scripts = configparser.ConfigParser()
    scripts.read_string(wheel.read(name).decode())
    assert dict(scripts["console_scripts"]) == {"packer": "packer.cli:main"}


def requirements(wheel_metadata: email.message.Message, extra: str) -> set[str]:
    """Lower-case names of what an extra ("" = the base install) needs."""
    found = set()
    for line in wheel_metadata.get_all("Requires-Dist", []):
        marker = re.search(r'extra == "([\w-]+)"', line)
        if (marker[1] if marker else "") == extra:
            found.add(re.split(r"[^\w.-]", line)[0].lower())
    return found


def test_base_install_changes_no_image_library(wheel_metadata: email.message.Message) -> None:
    """Installing for reading must not replace a training environment's Pillow or opencv."""
    assert requirements(wheel_metadata, "") == {"numpy", "simplejpeg", "click", "pyyaml"}


def test_extras(wheel_metadata: email.message.Message) -> None:
    assert {"convert", "convert-pillow", "dask", "torch", "test"} <= set(
        wheel_metadata.get_all("Provides-Extra", [])
    )
    convert = {"pillow-simd", "pillow", "opencv-python", "lmdb", "h5py", "webdataset"}
    convert |= {"joblib", "psutil"}
    assert requirements(wheel_metadata, "convert") == convert
    # The same, with what needs no compiler and no libGL in place of what does.
    plain = convert - {"pillow-simd", "opencv-python"} | {"opencv-python-headless"}
    assert requirements(wheel_metadata, "convert-pillow") == plain
    assert requirements(wheel_metadata, "dask") == {"distributed"}
    assert requirements(wheel_metadata, "torch") == {"torch"}


def test_one_version(wheel_metadata: email.message.Message) -> None:
    import packer

    assert wheel_metadata["Version"] == packer.__version__
    assert metadata.version("packer-shards") == packer.__version__, "run scripts/setup --force"
