"""`packer convert` without converting: --check and --dry-run."""

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
from packer.wording import count

if TYPE_CHECKING:
    from packer.input import Input
    from packer.packing.planning.job import Job


def check(options: ConvertOptions, *, dry_run: bool) -> None:
    """Check everything that a conversion checks before it scans the source: a second's work.

    Raises:
        UsageError: The conversion would be refused.
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
    """Scan, plan, and print the plan."""
    from packer.packing.planning.job import make_job
    from packer.types import display_path

    for warning in warnings_of(options):
        reporter.warn(warning)
    draw_once(given.source, os.environ, reporter)
    job = make_job(given, options, reporter, out)
    if options.part is not None:
        own = len(job.own_shards())
        reporter.note(f"this plan covers all parts; this part makes {count(own, 'shard')} of it")
    value = _planned(job)
    if as_json:
        click.echo(json.dumps(value))
        return
    for name, split in value["splits"].items():
        images, shards = count(split["samples"], "image"), count(split["shards"], "shard")
        click.echo(f"{name}\t{images}\t{shards}")
    reporter.note(count(value["classes"], "class"))
    if missing := job.missing():
        first = f"{display_path(missing[0].path)}: {missing[0].detail}"
        number = f"{len(missing)} of {count(job.planned, 'picture')}"
        reporter.warn(f"missing: {number}; first: {first}")


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
