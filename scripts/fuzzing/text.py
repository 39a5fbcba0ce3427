"""Make and run inputs that users write: recipes and configs."""

from __future__ import annotations

import importlib.resources
import random
from pathlib import Path

from fuzzing.change import change_bytes
from packer import recipe
from packer.settings.configfile import load_config
from packer.settings.options import ConvertOptions

_TOKENS = (
    *(b"&a [*a]", b"&a {k: *a}", b"*a", b"<<: *a", b"<<: [1]", b"? ", b"- ", b": ", b"{", b"["),
    *(b"[" * 2000, b"{a: " * 500, b"!!python/object:os.system", b"!!binary ''", b"!!set {}"),
    *(b"!!timestamp x", b"!!int x", b"!!float '", b"!!omap", b"0x", b"1e999", b".nan", b"~"),
    *(b"2026-99-99", b"1:2:3:4", b"0b", b"0o9", b"9" * 5000, b"\xff", b"\xe2\x80\xa8", b"\0"),
    *(b"--- \n", b"...\n", b"%YAML 9.9\n", b"|9\n", b">-\n", b"\t", b"'", b'"\\x', b"null"),
    *(b"(", b"(?P<", b"[", b"-1", b"1000000000000000000000", b"256MB", b"1e30TB"),
)
_RECIPE = b"""title: All
description: x
homepage: https://example.org
licence: MIT
source: drawn
root: a/b
local_names: [a, b.tar]
archives:
  - {name: a.tar, urls: ["https://example.org/a.tar"], bytes: 12, md5: "", sha256: "SHA"}
obtain: ask
bring_labels: so
images: 3
classes: 2
class_name: '\\d+\\.(.+)'
litter: [a/b]
options: {split: train=0.8, resize: 256, shard-size: 64MB, exclude-class: [a], part: 0/2}
""".replace(b"SHA", b"0" * 64)


def seed_recipe() -> list[bytes]:
    """Return the package's own recipes, and one with all keys."""
    return [*_files("packer.recipes"), _RECIPE]


def seed_config() -> list[bytes]:
    """Return the package's own configs, and one with many keys."""
    many = b"resize: 224x224\nresize-mode: crop\nfilter: box\nquality: 80\nseed: 3\npart: 0/4\n"
    more = (
        b"format: hdf5\ncodec: raw\nbackground: '#102030'\nshard-size: 1GB\njobs: 2\nsplit: none\n"
    )
    return [*_files("packer.configs"), many + more]


def change_text(rng: random.Random, data: bytes) -> bytes:
    """Change a YAML file: at any place, or the value of a key."""
    lines = data.split(b"\n")
    number = rng.randrange(len(lines))
    key, colon, _ = lines[number].partition(b":")
    if colon and rng.random() < 0.5:
        lines[number] = key + b": " + rng.choice(_TOKENS)
        return b"\n".join(lines)
    return change_bytes(rng, data, _TOKENS)


def run_recipe(data: bytes, folder: Path) -> None:
    """Read a recipe and use its values."""
    path = folder / "mine.yaml"
    path.write_bytes(data)
    known = recipe.load(str(path))
    known.display_name("001.ak47")
    known.litter_paths  # noqa: B018
    ConvertOptions(**{"resize": 8, **known.options})
    place, _ = recipe.find_source(known, None, folder, folder)
    if place is None:
        known.open(place)


def run_config(data: bytes, folder: Path) -> None:
    """Read a config, and convert's options from it."""
    path = folder / "mine.yaml"
    path.write_bytes(data)
    ConvertOptions(**load_config(str(path)))


def _files(package: str) -> list[bytes]:
    folder = importlib.resources.files(package)
    return [f.read_bytes() for f in folder.iterdir() if f.name.endswith(".yaml")]
