"""Installed imaging libraries: versions, warnings, and how to repair them."""

from __future__ import annotations

import importlib
import importlib.util
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

import packer
from packer.errors import MissingDependency
from packer.files import mapped
from packer.imaging.native import complaint, cutting, fastresize, pieces, region
from packer.imaging.opencv import load_cv2
from packer.installing import install_line, install_only, pip, resizer, version

_NOTHING: Final[Mapping[str, str]] = {}
# Parts of Pillow that decide bytes, by the names of PIL.features.
_PILLOW_PARTS: Final = ("libjpeg_turbo", "jpg", "zlib", "libtiff", "webp", "littlecms2")
# VEX prefix of 256-bit instructions of AVX2 (Intel SDM vol. 2, 2.3.5: map 0F38, L=1, pp=66). A
# build without AVX2 holds these three bytes by accident, one with it a thousand times.
_AVX2_BYTES: Final = b"\xc4\xe2\x7d"
_AVX2_MINIMUM: Final = 50


def require_converting() -> None:
    """Check that all imaging libraries that a conversion needs can be imported.

    Raises:
        MissingDependency: A library is missing or broken; the hint is the line that repairs it.
    """
    import_pillow()
    for name, hint in (("simplejpeg", install_only), ("cv2", install_line)):
        if importlib.util.find_spec(name) is None:
            raise MissingDependency(f"converting needs {name}, which is not installed", hint(name))
    load_cv2()


def import_pillow() -> ModuleType:
    """Import PIL.Image and check that it works.

    Raises:
        MissingDependency: Pillow is missing, or files of two versions are mixed.
    """
    spec = importlib.util.find_spec("PIL")
    if spec is None:
        raise MissingDependency(
            "converting needs Pillow, which is not installed", install_line("PIL")
        )
    where = spec.origin or ", ".join(spec.submodule_search_locations or ())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns before it raises
            image = importlib.import_module("PIL.Image")
            image.preinit()  # imports the formats; some may be of another version
            image.new("RGB", (2, 2)).resize((1, 1), image.Resampling.BICUBIC)
    except Exception as error:  # a mixture of versions fails in any way
        text = " ".join(str(error).split())
        raise MissingDependency(
            f"Pillow is broken ({where}): {type(error).__name__}: {text}", repair_line()
        ) from None
    return image


def overlap_warning() -> str:
    """A one-line warning with the command that repairs the installation; "" if all is well.

    Pillow and pillow-simd put their files into the same folder: if both are installed, the one
    installed last is in use, and removing either breaks the other.
    """
    installed = [name for name in ("Pillow", "pillow-simd") if version(name)]
    if len(installed) < 2:
        return ""
    used = "pillow-simd" if is_simd() else "Pillow, which resizes several times slower"
    return f"both Pillow and pillow-simd are installed; in use is {used}. Repair: {repair_line()}"


def repair_line() -> str:
    """The shell command that leaves exactly one working Pillow: pillow-simd if it is installed and
    can be compiled, else Pillow.
    """
    simd = bool(version("pillow-simd")) and resizer() == "pillow-simd"
    compiler = 'CC="cc -mavx2" ' if simd and _processor_has_avx2() else ""
    clean = f"{pip()} uninstall -y pillow pillow-simd && {compiler}"
    name = "pillow-simd" if simd else "pillow"
    return f"{clean}{pip()} install --no-cache-dir --force-reinstall --no-deps {name}"


def is_simd() -> bool:
    """Whether the Pillow in use is pillow-simd: its versions end in .postN."""
    import PIL

    return re.search(r"\.post\d+$", PIL.__version__) is not None


def versions() -> dict[str, str]:
    """Versions of the libraries that decide bytes, for the manifest. Whether pillow-simd uses
    AVX2 or SSE4 is not among them: both give the same pixels.
    """
    import PIL
    import simplejpeg
    from PIL import features

    found = {
        "simplejpeg": str(simplejpeg.__version__),
        "opencv": str(load_cv2().__version__),
        "pillow-simd" if is_simd() else "pillow": str(PIL.__version__),
    }
    for part in _PILLOW_PARTS:
        if number := features.version(part):
            found[f"pillow {part}"] = str(number)
    return found


def all_versions(plugins: Mapping[str, str] = _NOTHING) -> dict[str, str]:
    """Versions of packer, of the libraries that decide bytes, and of plug-ins, by name.

    Args:
        plugins: Entries of the plug-ins in use, from `packer.registry.provenance`.
    """
    return {"packer": packer.__version__, **versions(), **plugins}


def report() -> list[str]:
    """One line about each imaging library for `packer --version -v`. A missing or broken library
    gives a line, not an error.
    """
    lines = [_simplejpeg_line()]
    for make in (_pillow_line, _opencv_line):
        try:
            lines.append(make())
        except MissingDependency as error:
            lines.append(str(error))
    lines.append(_extensions_line())
    text = overlap_warning() if _pillow_works() else ""
    return [*lines, text] if text else lines


def _simplejpeg_line() -> str:
    found = version("simplejpeg")
    if not found:
        return f"simplejpeg: not installed ({install_only('simplejpeg')})"
    return f"simplejpeg {found}: decodes and encodes JPEG, with its own libjpeg-turbo"


def _pillow_line() -> str:
    image = import_pillow()
    from PIL import features

    name = "pillow-simd" if is_simd() else "Pillow"
    turbo = features.version("libjpeg_turbo")
    jpeg = f"libjpeg-turbo {turbo}" if turbo else f"libjpeg {features.version('jpg')}"
    parts = [jpeg, f"resizing with {_instructions()}" if is_simd() else "resizing without SIMD"]
    missing = [
        what
        for what, part in (("TIFF", "libtiff"), ("ICC profiles", "littlecms2"), ("WebP", "webp"))
        if not features.check(part)
    ]
    if missing:
        parts.append("built without " + ", ".join(missing))
    return f"{name} {image.__version__}: " + ", ".join(parts)


def _opencv_line() -> str:
    if importlib.util.find_spec("cv2") is None:
        return f"OpenCV: not installed ({install_line('cv2')})"
    cv2 = load_cv2()
    found = re.search(r"^\s*JPEG:\s*(.+)$", cv2.getBuildInformation(), re.MULTILINE)
    jpeg = found.group(1).strip() if found else "unknown"
    return f"OpenCV {cv2.__version__}: JPEG {jpeg}"


def _extensions_line() -> str:
    """Which C extensions were built; a reader works without them, but slower."""
    found = {
        "region decoding": region.NATIVE.is_built,
        "resizing": fastresize.NATIVE.is_built,
        "both at once": pieces.NATIVE.is_built,
        "cutting": cutting.NATIVE.is_built,
        "mapping": mapped.NATIVE.is_built,
        "unusual JPEGs": complaint.NATIVE.is_built,
    }
    built = ", ".join(name for name, there in found.items() if there) or "none"
    missing = ", ".join(name for name, there in found.items() if not there)
    return f"own C extensions: {built}" + (f"; not built: {missing}" if missing else "")


def _pillow_works() -> bool:
    try:
        import_pillow()
    except MissingDependency:
        return False
    return True


def _instructions() -> str:
    """Which vector instructions pillow-simd was compiled for, which it has no function for."""
    from PIL import _imaging

    code = Path(_imaging.__file__).read_bytes()
    return "AVX2" if code.count(_AVX2_BYTES) >= _AVX2_MINIMUM else "SSE4"


def _processor_has_avx2() -> bool:
    try:
        return " avx2 " in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:  # not Linux: the plain build works everywhere
        return False
