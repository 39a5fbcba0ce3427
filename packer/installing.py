"""The shell command that installs a missing library, suited to the current environment.

Two distributions install the package PIL (Pillow, pillow-simd), four install cv2. The command never
names one of them if another one is installed, and never names pillow-simd if it cannot be compiled.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Final

_X86: Final = ("x86_64", "AMD64", "i686")
#: Module that converting imports beside the base install → its distribution; PIL's is `resizer`.
_DISTRIBUTIONS: Final = {
    "PIL": "",
    "cv2": "opencv-python-headless",
    "lmdb": "lmdb",
    "h5py": "h5py",
    "joblib": "joblib",
    "psutil": "psutil",
}
_OPENCV: Final = (
    "opencv-python",
    "opencv-python-headless",
    "opencv-contrib-python",
    "opencv-contrib-python-headless",
)


def install_only(module: str) -> str:
    """Return the shell command that installs one library and nothing else, for reading.

    Args:
        module: Import name: "cv2".
    """
    return f"{pip()} install {_distribution_of(module)}"


def install_line(module: str) -> str:
    """Return the shell command that installs a library and all others that converting needs.

    If only that library is missing, the command names it alone. If Pillow is installed, as in most
    training environments, the command names each missing library and leaves Pillow unchanged.

    Args:
        module: Import name: "cv2".
    """
    missing = [name for name in _DISTRIBUTIONS if name == module or not _is_there(name)]
    extra, opencv = ("convert", "opencv-python")
    if is_x86() and not can_compile():
        extra, opencv = ("convert-pillow", "opencv-python-headless")
    other_opencv = any(name != opencv and version(name) for name in _OPENCV)
    if len(missing) == 1 or "PIL" not in missing or other_opencv:
        return f"{pip()} install {' '.join(map(_distribution_of, missing))}"
    return f"{pip()} install 'packer-shards[{extra}]'"


def pip() -> str:
    """Return the command of pip for the current environment."""
    return f"{shlex.quote(sys.executable or 'python3')} -m pip"


def resizer() -> str:
    """Return the fastest distribution of Pillow that can be installed here."""
    return "pillow-simd" if is_x86() and can_compile() else "Pillow"


def is_x86() -> bool:
    """Whether this is a processor that pillow-simd supports."""
    return platform.machine() in _X86


def can_compile() -> bool:
    """Whether pillow-simd can be compiled: needs a C compiler, Python's and libjpeg's headers."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if not any(map(shutil.which, (compiler, "cc", "gcc", "clang"))):
        return False
    prefixes = (sys.prefix, sys.base_prefix, "/usr", "/usr/local", "/opt/homebrew")
    jpeg = any(Path(prefix, "include", "jpeglib.h").exists() for prefix in prefixes)
    return jpeg and Path(sysconfig.get_path("include"), "Python.h").exists()


def version(distribution: str) -> str:
    """Return the version of a distribution; "" if it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _is_there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _distribution_of(module: str) -> str:
    return resizer() if module == "PIL" else _DISTRIBUTIONS.get(module, module)
