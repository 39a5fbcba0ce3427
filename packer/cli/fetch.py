"""`packer fetch`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from packer.cli._environment import path_variable
from packer.cli._options import option, reporting_options
from packer.cli._reporter import make_reporter


@click.command()
@click.argument("recipe")
@option(
    "-o",
    "--out",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    is_path=True,
    help="Folder of the files.",
    show_default="$PACKER_DATA/RECIPE, else the working directory",
)
@reporting_options
def command(recipe: str, out: Path | None, as_json: bool, **shown: Any) -> None:
    """Download a recipe's archives, with resume, retries and checksums.

    Prints the path of the archive or folder, for --src of packer convert.
    """
    import json

    from packer import recipe as recipes
    from packer.fetch import fetch_dataset

    known = recipes.load(recipe)
    data = None if out else path_variable("PACKER_DATA")
    folder = out or (data / known.name if data else Path.cwd())
    reporter = make_reporter(
        shown["progress"], quiet=shown["quiet"], verbose=shown["verbose"], unit="bytes"
    )
    reporter.note(f"fetching {known.title} into {folder}")
    for archive in known.archives:
        reporter.detail(f"{archive.name}: {', '.join(archive.urls)}")
    if known.licence:
        reporter.note(f"licence: {known.licence}")

    try:
        path = fetch_dataset(known, folder, reporter=reporter).absolute()
    finally:
        reporter.close()
    if as_json:
        click.echo(json.dumps({"schema": "packer.fetch/1", "path": os.fspath(path)}))
    else:
        click.echo(os.fspath(path))
