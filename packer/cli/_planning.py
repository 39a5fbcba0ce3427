"""What `packer convert` says without converting: --check and --dry-run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packer.cli._reporter import StderrReporter
from packer.cli._sample import draw_once
from packer.errors import ConfigError
from packer.settings.options import ConvertOptions, warnings_of

if TYPE_CHECKING:
    from packer.input import Input
    from packer.packing.planning.job import Job


def check(options: ConvertOptions, *, dry_run: bool) -> None:
    """What a conversion would refuse before it scans the source, in a second on any file system.

    Raises:
        UsageError: That.
    """
    from packer import formats
    from packer.imaging import libraries
    from packer.packing.cluster.run import require_cluster

    if dry_run:
        raise ConfigError("--check and --dry-run contradict each other", "use one of them")
    options.require_one_size()
    libraries.require_converting()
    formats.require(options.format)
    require_cluster(options)


def dry_run(
    given: Input, options: ConvertOptions, out: Path, reporter: StderrReporter, *, as_json: bool
) -> None:
    """Scan, plan, and print what would be made."""
    from packer.packing.planning.job import make_job
    from packer.types import display_path

    for warning in warnings_of(options):
        reporter.warn(warning)
    draw_once(given.source, os.environ, reporter)
    job = make_job(given, options, reporter, out)
    if options.part is not None:
        own = len(job.own_shards())
        reporter.note(f"the plan is that of all parts; this part makes {own} of its shards")
    value = _planned(job)
    if as_json:
        click.echo(json.dumps(value))
        return
    for name, split in value["splits"].items():
        click.echo(f"{name}\t{split['samples']} images\t{split['shards']} shards")
    reporter.note(f"{value['classes']} classes")
    if missing := job.missing():
        first = f"{display_path(missing[0].path)}: {missing[0].detail}"
        reporter.warn(f"{len(missing)} of {job.planned} pictures are not there; first: {first}")


def _planned(job: Job) -> dict[str, Any]:
    shards = list(job.plan.shards())
    return {
        "schema": "packer.plan/1",
        "planned": job.planned,
        "classes": len(job.labelling.classes),
        "ignored": dict(job.agreement.ignored),
        "splits": {
            name: {
                "samples": end - first,
                "shards": sum(shard.split == name for shard in shards),
            }
            for name, (first, end) in job.plan.splits.items()
        },
        "options": job.options.affecting_bytes(),
    }
