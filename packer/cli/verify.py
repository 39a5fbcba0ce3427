"""`packer verify`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from packer.cli._options import option, reporting_options
from packer.cli._reporter import make_reporter
from packer.cli._sample import draw_once
from packer.errors import DamageError

#: Lines of damage that are printed; --json prints all.
_SHOWN = 20


@click.command()
@click.argument("pack", type=click.Path(path_type=Path))
@click.option("--decode", is_flag=True, help="Decode every picture.")
@click.option(
    "--against", metavar="SOURCE", help="Convert SOURCE again in memory and compare each sample."
)
@option("-j", "--jobs", type=click.IntRange(min=1), help="Worker processes [all cores].")
@reporting_options
def command(pack: Path, decode: bool, against: str | None, jobs: int | None, **shown: Any) -> None:
    """Compare a pack's files with its manifest: sizes, checksums, and more if asked.

    Exit code 4 if something differs; each line says what and where.
    """
    from packer.input import open_input
    from packer.verify import VerifyOptions, verify_pack

    reporter = make_reporter(shown["progress"], quiet=shown["quiet"], verbose=shown["verbose"])
    source = open_input(against) if against is not None else None
    if source is not None:
        draw_once(source.source, os.environ, reporter)
    try:
        result = verify_pack(pack, VerifyOptions(decode, source, jobs), reporter)
    finally:
        reporter.close()
    if shown["as_json"]:
        value = {
            "schema": "packer.verify/1",
            "samples": result.samples,
            "shards": result.shards,
            "decoded": result.decoded,
            "damage": result.damage,
        }
        click.echo(json.dumps(value))
    else:
        for line in result.damage[:_SHOWN]:
            click.echo(line, err=True)
        if len(result.damage) > _SHOWN:
            click.echo(f"… and {len(result.damage) - _SHOWN} more (--json lists all)", err=True)
    if result.damage:
        places = "1 place" if len(result.damage) == 1 else f"{len(result.damage)} places"
        raise DamageError(f"{pack}: damaged in {places}")
    if not shown["as_json"]:
        decoded = f", {result.decoded} samples read" if result.decoded else ""
        click.echo(f"ok: {result.shards} shards, {result.samples} samples{decoded}")
