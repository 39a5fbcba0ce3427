"""`packer cat`."""

from __future__ import annotations

import os
import posixpath
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from packer.cli._options import option
from packer.errors import UsageError, suggestion

if TYPE_CHECKING:
    from packer.pack.manifest import Manifest
    from packer.pack.opened import Pack


@click.command("cat")
@click.argument("pack", type=click.Path(path_type=Path))
@click.argument("key")
@option("--raw", is_flag=True, help=r"Take KEY as the path itself: \ is a plain character.")
@option("--split", metavar="NAME", help="Only this split.")
def command(pack: Path, key: str, raw: bool, split: str | None) -> None:
    r"""Write one sample's stored picture to standard output.

    KEY is its original path as `packer ls` writes it, with \t, \n, \r, \\ and \xHH. If no sample
    has that path, KEY is taken as the path itself. A raw picture is written as an .npy file.
    """
    from packer.codecs import load_codec
    from packer.pack.manifest import read_manifest
    from packer.pack.payloads import Payloads

    manifest = read_manifest(pack)
    image = next(field for field in manifest.fields if field.kind == "image")
    opened, sample = _find(pack, manifest, os.fsencode(key), raw, split)
    [payload] = Payloads(opened).read([sample], image.name)
    if payload is None:
        raise UsageError(f"{pack}: sample {key!r} has no picture")
    size = (int(opened.index[name][sample]) for name in ("width", "height"))
    codec = load_codec(str(image.codec), manifest.libraries)
    sys.stdout.buffer.write(codec.file_header(*size))
    sys.stdout.buffer.write(payload)


def _find(
    pack: Path, manifest: Manifest, key: bytes, raw: bool, split: str | None
) -> tuple[Pack, int]:
    """Return the split and the number of a key's sample."""
    from packer.escape import unescape_path
    from packer.pack.columns import read_path
    from packer.pack.opened import Pack
    from packer.types import display_path

    written = None if raw else unescape_path(key)
    places: dict[bytes, list[tuple[Pack, int]]] = {key: []}
    if written is not None:
        places = {written: [], key: []}  # the form of `packer ls` goes first
    paths = []
    for name in manifest.splits if split is None else [split]:
        opened = Pack(pack, name)
        for sample in range(len(opened)):
            path = read_path(opened.index, sample)
            paths.append(path)
            if path in places:
                places[path].append((opened, sample))
    found = next(filter(None, places.values()), [])
    if len(found) > 1:
        names = ", ".join(opened.split for opened, _ in found)
        raise UsageError(f"{pack}: has {len(found)} samples with this name, in {names}", "--split")
    if not found:
        raise UsageError(f"{pack}: has no sample {display_path(key)!r}", _hint(key, paths))
    return found[0]


def _hint(key: bytes, paths: Sequence[bytes]) -> str:
    from packer.escape import escape_path

    name = posixpath.basename(key)
    near = [escape_path(path) for path in paths if posixpath.basename(path) == name]
    return suggestion(escape_path(key), near) if near else f"packer ls lists all {len(paths)}"
