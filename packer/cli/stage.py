"""`packer stage`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from packer.cli._options import option, reporting_options
from packer.cli._reporter import make_reporter
from packer.wording import count


@click.command(epilog="Example: pack=$(packer stage /nfs/caltech256-256-jpeg-tar /dev/shm)")
@click.argument("pack", type=click.Path(path_type=Path))
@click.argument("dest", type=click.Path(path_type=Path))
@option(
    "--split",
    "splits",
    metavar="NAME[,NAME]",
    default="",
    help="Only these splits.",
    show_default="all",
)
@option(
    "--fraction",
    type=click.FloatRange(0, 1, min_open=True),
    default=1.0,
    help="Copy only the first shards of each split, up to this fraction of its bytes.",
)
@option(
    "-j", "--jobs", type=click.IntRange(min=1), help="Files copied at a time.", show_default="4"
)
@reporting_options
def command(
    pack: Path, dest: Path, splits: str, fraction: float, jobs: int | None, **shown: Any
) -> None:
    """Copy a pack to a local disk or to /dev/shm, once a node, and print the path of the copy.

    Any number of processes may call it at the same time: one copies, the others wait. Complete
    files are not copied again.
    """
    from packer.stage import StageOptions, stage_pack

    names = tuple(name.strip() for name in splits.split(",") if name.strip())
    options = StageOptions(names, fraction)
    if jobs is not None:
        options = StageOptions(names, fraction, jobs)
    reporter = make_reporter(
        shown["progress"], quiet=shown["quiet"], verbose=shown["verbose"], unit="bytes"
    )
    try:
        staged = stage_pack(pack, dest, options, reporter=reporter)
    finally:
        reporter.close()
    part = f"{count(staged.samples, 'sample')} in {count(staged.shards, 'shard')}"
    reporter.note(f"staged: {part}, {staged.size / 1e6:,.1f} MB")
    if shown["as_json"]:
        value = {
            "schema": "packer.stage/1",
            "path": os.fspath(staged.path),
            "samples": staged.samples,
            "shards": staged.shards,
            "bytes": staged.size,
        }
        click.echo(json.dumps(value))
    else:
        click.echo(os.fspath(staged.path))
