"""`packer ls`."""

from __future__ import annotations

from pathlib import Path

import click

from packer.cli._options import Name
from packer.notes import NOTES

_COLUMNS = ("key", "split", "label", "class", "width", "height", "bytes")


@click.command("ls")
@click.argument("pack", type=click.Path(path_type=Path))
@click.option("--split", metavar="NAME", help="Of this split only.")
@click.option(
    "--note",
    "notes",
    type=Name(NOTES),
    multiple=True,
    help="Only pictures with this note, as packer info counts them; can be given several times.",
)
def command(pack: Path, split: str | None, notes: tuple[str, ...]) -> None:
    r"""List a pack's samples as tab-separated lines, in the order of the pack.

    Columns: key, split, label, class, width, height, bytes. Tabs, newlines and backslashes in
    names are written as \t, \n and \\.
    """
    import numpy as np

    from packer.columns import noted_samples
    from packer.manifest import read_manifest
    from packer.reader.pack import Pack

    manifest = read_manifest(pack)
    image = next(field.name for field in manifest.fields if field.kind == "image")
    click.echo("\t".join(_COLUMNS))
    for part in manifest.splits if split is None else [split]:
        opened = Pack(pack, part)
        index = opened.index
        samples = noted_samples(index, notes) if notes else np.arange(len(index["label"]))
        names = ("label", "width", "height", f"{image}.size")
        columns = [index[name][samples].tolist() for name in names]
        for sample, label, width, height, size in zip(samples.tolist(), *columns, strict=True):
            shown = _escape(manifest.classes[label]) if label >= 0 else ""
            key = _escape(opened.key(sample))
            click.echo(f"{key}\t{part}\t{label}\t{shown}\t{width}\t{height}\t{size}")


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
