"""The line that installs what is missing, fit for the environment that it is printed in.

Two distributions put their files into PIL (Pillow, pillow-simd) and four into cv2. The line never
names one of them beside another that is there, nor pillow-simd where it cannot be compiled.
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
#: What converting imports beside the base install → the distribution that brings it; that of PIL
#: is `resizer`.
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
    """The shell line that installs one library and nothing else: what reading needs.

    Args:
        module: As it is imported: "cv2".
    """
    return f"{pip()} install {_distribution_of(module)}"


def install_line(module: str) -> str:
    """The shell line that installs a library for converting, and what else converting needs.

    If all else that converting needs is there, it names that one library. Where Pillow is there
    already, as in most training environments, it names what is missing one by one and leaves
    Pillow alone.

    Args:
        module: As it is imported: "cv2".
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
    """The pip of the running Python's environment, as a command."""
    return f"{shlex.quote(sys.executable or 'python3')} -m pip"


def resizer() -> str:
    """The distribution that resizes fastest of those that can be installed here."""
    return "pillow-simd" if is_x86() and can_compile() else "Pillow"


def is_x86() -> bool:
    """Whether pillow-simd is for this processor."""
    return platform.machine() in _X86


def can_compile() -> bool:
    """Whether pillow-simd can be compiled: by a C compiler with Python's and libjpeg's headers."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if not any(map(shutil.which, (compiler, "cc", "gcc", "clang"))):
        return False
    prefixes = (sys.prefix, sys.base_prefix, "/usr", "/usr/local", "/opt/homebrew")
    jpeg = any(Path(prefix, "include", "jpeglib.h").exists() for prefix in prefixes)
    return jpeg and Path(sysconfig.get_path("include"), "Python.h").exists()


def version(distribution: str) -> str:
    """Version of an installed distribution, "" if there is none of that name."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _is_there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _distribution_of(module: str) -> str:
    return resizer() if module == "PIL" else _DISTRIBUTIONS.get(module, module)
