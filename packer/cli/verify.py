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
from packer.wording import count

if TYPE_CHECKING:
    from packer.verify import VerifyOptions, VerifyResult
    from packer.verify.against import SourceDifferences

#: Lines of damage that are printed, and names of each kind of difference; --json prints all.
_SHOWN = 20
_SHOWN_EACH = 5


@click.command()
@click.argument("pack", type=click.Path(path_type=Path))
@option("--decode", is_flag=True, help="Decode every picture.")
@option(
    "--against",
    metavar="SOURCE",
    is_path=True,
    help="Convert SOURCE again in memory, and compare by path. SOURCE as for packer convert.",
)
@option("--src", metavar="PATH", is_path=True, help="With --against: as for packer convert.")
@option("--null", is_flag=True, help="With --against: as for packer convert.")
@option(
    "--sample",
    metavar="SHARE",
    help="Read a sample of the batches instead of whole shards: 5%, drawn at random; or K/N,"
    " the batches i with i mod N = K, so that N runs read all.",
)
@option(
    "--max-minutes",
    type=click.FloatRange(0, min_open=True),
    help="Start no further shard after this time; shards are read in random order.",
)
@option(
    "--repair",
    is_flag=True,
    help="Move damaged files aside (NAME.old-…) and restore them: with --against from SOURCE,"
    " without it the files that need no source.",
)
@option(
    "-j", "--jobs", type=click.IntRange(min=1), help="Worker processes.", show_default="all cores"
)
@reporting_options
def command(
    pack: Path, against: str | None, src: str | None, null: bool, sample: str | None, **given: Any
) -> None:
    """Open a pack as a reader does, and compare all its files with its manifest.

    Exit code 0 if all verified files are right (all, a sample, or as many as there was time for);
    4 if one differs; each line names a file and the difference. With --against: 4 if a picture,
    class or split differs; 1 if only files or classes are missing in the pack or in SOURCE.
    """
    from packer.cli._source import open_source
    from packer.verify import VerifyOptions, verify_pack
    from packer.verify.subset import parse_subset

    if against is None and (src is not None or null):
        raise click.UsageError("--src and --null go with --against")
    progress, quiet, verbose, as_json = (
        given[name] for name in ("progress", "quiet", "verbose", "as_json")
    )
    reporter = make_reporter(progress, quiet=quiet, verbose=verbose, unit="bytes")
    try:
        source = open_source(against, reporter, src, null) if against is not None else None
        if source is not None:
            draw_once(source.source, os.environ, reporter)
        options = VerifyOptions(
            given["decode"],
            source,
            given["jobs"],
            sample=None if sample is None else parse_subset(sample),
            minutes=given["max_minutes"],
            repair=given["repair"],
        )
        result = verify_pack(pack, options, reporter=reporter)
    finally:
        reporter.close()
    if as_json:
        click.echo(json.dumps(_as_json(result)))
    else:
        _list(result.damage)
    if result.damage and not _is_repaired(result):
        raise _damage(pack, result)
    if source is not None and result.against is not None and result.against.any:
        _refuse(pack, source.location, result.against, listed=not as_json)
    if not as_json:
        click.echo(_summary(result, options))


def _is_repaired(result: VerifyResult) -> bool:
    return result.repair is not None and not result.repair.missing


def _damage(pack: Path, result: VerifyResult) -> DamageError:
    places = count(len(result.damage), "place")
    if result.repair is None:
        return DamageError(f"{pack}: damaged in {places}", f"of each file: {_repair(pack)}")
    missing = ", ".join(result.repair.missing[:_SHOWN_EACH])
    more = len(result.repair.missing) - _SHOWN_EACH
    return DamageError(
        f"{pack}: was damaged in {places}; now missing: {missing}"
        + (f" and {more} more" if more > 0 else ""),
        _rest(pack),
    )


def _summary(result: VerifyResult, options: VerifyOptions) -> str:
    """Return the last line if nothing is wrong, or everything is repaired."""
    decoded = f", {count(result.decoded, 'sample')} read" if result.decoded else ""
    if result.repair is not None:
        return f"repaired: {', '.join(result.repair.restored) or 'by another run'}"
    if options.sample is None and options.minutes is None:
        shards, samples = count(result.shards, "shard"), count(result.samples, "sample")
        return f"ok: {shards}, {samples}{decoded}"
    head = "stopped, ok so far" if result.is_stopped else "ok"
    return (
        f"{head}: {result.compared} of {count(result.files, 'file')} compared,"
        f" {result.decoded} of {count(result.samples, 'sample')} read"
    )


def _as_json(result: VerifyResult) -> dict[str, Any]:
    value = {
        "schema": "packer.verify/1",
        "samples": result.samples,
        "shards": result.shards,
        "files": result.files,
        "compared": result.compared,
        "decoded": result.decoded,
        "stopped": result.is_stopped,
        "damage": result.damage,
    }
    if result.against is not None:
        value["against"] = dataclasses.asdict(result.against)
    if result.repair is not None:
        value["repair"] = dataclasses.asdict(result.repair)
    return value


def _list(lines: Sequence[str], shown: int = _SHOWN, prefix: str = "") -> None:
    from packer.escape import BACKSLASH, escape

    for line in lines[:shown]:
        click.echo(prefix + escape(line, keep=BACKSLASH), err=True)
    if len(lines) > shown:
        click.echo(f"{prefix}… and {len(lines) - shown} more (--json lists all)", err=True)


def _repair(pack: Path) -> str:
    from packer.pack.manifest import read_manifest

    return read_manifest(pack).repair


def _rest(pack: Path) -> str:
    from packer.pack.manifest import read_manifest

    manifest = read_manifest(pack)
    if not manifest.listing_sha256 or manifest.counts.get("excerpt_of"):
        return manifest.repair
    return "run the packer convert again that made the pack, or --repair --against its source"


def _refuse(pack: Path, source: str, found: SourceDifferences, *, listed: bool) -> None:
    """Raise an error that counts the differences between a pack and its source."""
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
            f"; {count(len(found.new_classes), 'class')} new, {len(found.old_classes)} gone:"
            f" {count(found.renumbered, 'label')} would have another number"
        )
    kind = DamageError if found.content else PackerError
    raise kind(
        f"{pack}: differs from what {source} gives today: {counts}",
        "convert again into another --out, or with --force, if the source is right",
    )
