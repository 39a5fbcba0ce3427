"""`packer cat`."""

from __future__ import annotations

import os
import sys
from pathlib import Path, PurePosixPath

import click

from packer.errors import UsageError, suggestion


@click.command("cat")
@click.argument("pack", type=click.Path(path_type=Path))
@click.argument("key")
def command(pack: Path, key: str) -> None:
    """Write one sample's stored picture to standard output.

    KEY is its original path, as `packer ls` lists it. A raw picture is written as an .npy file.
    """
    from packer import registry
    from packer.columns import read_path
    from packer.manifest import read_manifest
    from packer.reader.pack import Pack
    from packer.reader.payloads import Payloads
    from packer.types import display_path, display_text

    manifest = read_manifest(pack)
    image = next(field for field in manifest.fields if field.kind == "image")
    wanted = os.fsencode(key)
    keys = []
    for split in manifest.splits:
        opened = Pack(pack, split)
        for sample in range(len(opened)):
            path = read_path(opened.index, sample)
            if path != wanted:
                keys.append(display_path(path))
                continue
            [payload] = Payloads(opened).read([sample], image.name)
            assert payload is not None, "every sample has its picture"
            size = (int(opened.index[name][sample]) for name in ("width", "height"))
            sys.stdout.buffer.write(registry.load("codecs", str(image.codec)).file_header(*size))
            sys.stdout.buffer.write(payload)
            return
    shown = display_text(key)
    raise UsageError(f"{pack}: has no sample {shown!r}", _hint(shown, keys))


def _hint(key: str, keys: list[str]) -> str:
    near = [other for other in keys if PurePosixPath(other).name == PurePosixPath(key).name]
    return suggestion(key, near) if near else f"packer ls lists all {len(keys)}"
