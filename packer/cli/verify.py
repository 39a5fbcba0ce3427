"""`packer verify`."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packer.cli._options import option, reporting_options
from packer.cli._reporter import make_reporter
from packer.cli._sample import draw_once
from packer.errors import DamageError, PackerError

if TYPE_CHECKING:
    from packer.against import SourceDifferences
    from packer.verify import VerifyResult

#: Lines of damage that are printed, and names of each kind of difference; --json prints all.
_SHOWN = 20
_SHOWN_EACH = 5


@click.command()
@click.argument("pack", type=click.Path(path_type=Path))
@click.option("--decode", is_flag=True, help="Decode every picture.")
@click.option(
    "--against",
    metavar="SOURCE",
    help="Convert SOURCE again in memory, and compare by path. SOURCE as for packer convert.",
)
@click.option("--src", metavar="PATH", help="With --against: as for packer convert.")
@click.option("--null", is_flag=True, help="With --against: as for packer convert.")
@option("-j", "--jobs", type=click.IntRange(min=1), help="Worker processes [all cores].")
@reporting_options
def command(
    pack: Path, decode: bool, against: str | None, src: str | None, null: bool, jobs: int | None,
    **shown: Any,
) -> None:  # fmt: skip
    """Open a pack as a reader does, and compare all its files with its manifest.

    Exit code 4 if something differs; each line says what and where. With --against: 4 if a picture,
    class or split differs, 1 if only files are missing in the pack or in SOURCE, or classes are.
    """
    from packer.cli._source import open_source
    from packer.verify import VerifyOptions, verify_pack

    if against is None and (src is not None or null):
        raise click.UsageError("--src and --null go with --against")
    reporter = make_reporter(shown["progress"], quiet=shown["quiet"], verbose=shown["verbose"])
    try:
        source = open_source(against, reporter, src, null) if against is not None else None
        if source is not None:
            draw_once(source.source, os.environ, reporter)
        result = verify_pack(pack, VerifyOptions(decode, source, jobs), reporter)
    finally:
        reporter.close()
    if shown["as_json"]:
        click.echo(json.dumps(_as_json(result)))
    else:
        _list(result.damage)
    if result.damage:
        places = "1 place" if len(result.damage) == 1 else f"{len(result.damage)} places"
        raise DamageError(f"{pack}: damaged in {places}", f"of each file: {_repair(pack)}")
    if source is not None and result.against is not None and result.against.any:
        _refuse(pack, source.location, result.against, listed=not shown["as_json"])
    if not shown["as_json"]:
        decoded = f", {result.decoded} samples read" if result.decoded else ""
        click.echo(f"ok: {result.shards} shards, {result.samples} samples{decoded}")


def _as_json(result: VerifyResult) -> dict[str, Any]:
    value = {
        "schema": "packer.verify/1",
        "samples": result.samples,
        "shards": result.shards,
        "decoded": result.decoded,
        "damage": result.damage,
    }
    if result.against is not None:
        value["against"] = dataclasses.asdict(result.against)
    return value


def _list(lines: Sequence[str], shown: int = _SHOWN, prefix: str = "") -> None:
    from packer.escape import BACKSLASH, escape

    for line in lines[:shown]:
        click.echo(prefix + escape(line, keep=BACKSLASH), err=True)
    if len(lines) > shown:
        click.echo(f"{prefix}… and {len(lines) - shown} more (--json lists all)", err=True)


def _repair(pack: Path) -> str:
    from packer.manifest import read_manifest

    return read_manifest(pack).repair


def _refuse(pack: Path, source: str, found: SourceDifferences, *, listed: bool) -> None:
    """End with what differs between a pack and its source."""
    kinds = {
        "missing in the pack": found.missing,
        "extra": found.extra,
        "changed": found.changed,
        "of another class, split or place": found.relabelled,
    }
    classes = {"new in the source": found.new_classes, "only in the pack": found.old_classes}
    if listed:
        for what, names in kinds.items():
            _list(names, _SHOWN_EACH, f"{what}: ")
        for what, names in classes.items():
            _list(names, _SHOWN_EACH, f"class {what}: ")
    counts = ", ".join(
        f"{len(names)} {what}"
        for what, names in kinds.items()
        if names or what != "of another class, split or place"
    )
    if found.new_classes or found.old_classes:
        counts += (
            f"; {len(found.new_classes)} classes new, {len(found.old_classes)} gone: the numbers of"
            f" {found.renumbered} labels would be others"
        )
    kind = DamageError if found.content else PackerError
    raise kind(
        f"{pack}: is not what {source} gives today: {counts}",
        "convert again into another --out, or with --force, if the source is right",
    )
