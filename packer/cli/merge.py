"""`packer merge`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from packer.cli._job import batch_job
from packer.cli._options import option, reporting_options
from packer.cli._reporter import make_reporter
from packer.cli._summary import as_json, name_next_steps, summarise
from packer.errors import MissingShards


@click.command()
@click.argument("pack", type=click.Path(path_type=Path))
@option(
    "--max-skipped",
    type=click.IntRange(min=0),
    help="Stop (exit 3) if all parts together skipped more samples.",
    show_default="1 %, at least 10",
)
@reporting_options
def command(pack: Path, max_skipped: int | None, **shown: Any) -> None:
    """Merge the parts made by `packer convert --part K/N` into a pack.

    Reads neither the source nor the shards. Names missing shards, and the parts to run again.
    Prints the pack's path.
    """
    from packer.merge import merge_pack, ranges
    from packer.types import display_text

    reporter = make_reporter(shown["progress"], quiet=shown["quiet"], verbose=shown["verbose"])
    try:
        result = merge_pack(
            pack, max_skipped=max_skipped, reporter=reporter, job_name=batch_job(os.environ)
        )
    except MissingShards as error:
        if shown["as_json"]:
            value = {
                "schema": "packer.merge/1",
                "out": display_text(os.fspath(pack.absolute())),
                "complete": False,
                "missing": list(error.shards),
                "array": ranges(error.parts),
            }
            click.echo(json.dumps(value))
        raise
    finally:
        reporter.close()
    if shown["as_json"]:
        click.echo(json.dumps({"schema": "packer.merge/1", **as_json(result)}))
        return
    summarise(result, reporter)
    name_next_steps(result, reporter)
    click.echo(display_text(os.fspath(result.out)))
