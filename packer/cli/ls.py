"""`packer ls`."""

from __future__ import annotations

from pathlib import Path

import click

from packer.cli._options import Name, option
from packer.notes import NOTES

_COLUMNS = ("key", "split", "label", "class", "width", "height", "bytes")


@click.command("ls")
@click.argument("pack", type=click.Path(path_type=Path))
@option("--split", metavar="NAME", help="Only this split.")
@option(
    "-0",
    "--null",
    is_flag=True,
    help="Print the keys alone, unescaped, each with a zero byte at its end.",
)
@option(
    "--note",
    "notes",
    type=Name(NOTES),
    multiple=True,
    help="Only pictures with this note, as counted by packer info; repeatable.",
)
def command(pack: Path, split: str | None, null: bool, notes: tuple[str, ...]) -> None:
    r"""List a pack's samples as tab-separated lines, in the order of the pack.

    Columns: key, split, label, class, width, height, bytes. In names, tab, newline, carriage return
    and backslash are written as \t, \n, \r and \\; other control characters, bytes that are not
    UTF-8, and a "-" at the beginning of a key as \xHH for each byte. packer cat takes keys in this
    form.

    With --null, for programs: packer ls -0 PACK | xargs -0 -n1 packer cat --raw PACK --
    """
    import numpy as np

    from packer.escape import escape, escape_path
    from packer.pack.columns import noted_samples, read_path
    from packer.pack.manifest import read_manifest
    from packer.pack.opened import Pack

    manifest = read_manifest(pack)
    image = next(field.name for field in manifest.fields if field.kind == "image")
    classes = [escape(name) for name in manifest.classes]
    if not null:
        click.echo("\t".join(_COLUMNS))
    for part in manifest.splits if split is None else [split]:
        index = Pack(pack, part).index
        samples = noted_samples(index, notes) if notes else np.arange(len(index["label"]))
        names = ("label", "width", "height", f"{image}.size")
        columns = [index[name][samples].tolist() for name in names]
        for sample, label, width, height, size in zip(samples.tolist(), *columns, strict=True):
            path = read_path(index, sample)
            if null:
                click.echo(path + b"\0", nl=False)
                continue
            shown = classes[label] if label >= 0 else ""
            line = f"{escape_path(path)}\t{part}\t{label}\t{shown}\t{width}\t{height}\t{size}\n"
            click.echo(line.encode(), nl=False)  # UTF-8 whatever the locale, as keys are bytes
