"""`packer convert`."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from packer import registry
from packer.cli._job import batch_job
from packer.cli._options import (
    Bytes,
    Name,
    Part,
    option,
    path_option,
    path_variable,
    reporting_options,
)
from packer.cli._reporter import StderrReporter, make_reporter
from packer.cli._summary import as_json, summarise
from packer.options import (
    BACKENDS,
    FILTERS,
    ON_ERROR,
    ORDERS,
    RESIZE_MODES,
    SUBSAMPLINGS,
    ConvertOptions,
)

if TYPE_CHECKING:
    from packer.convert import ConvertResult
    from packer.input import Input
    from packer.packing.job import Job

F = TypeVar("F", bound=Callable[..., Any])


def _load_config(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Eager: what the config says becomes the defaults of the options after it."""
    if value is not None:
        from packer.configfile import load_config

        ctx.default_map = {**(ctx.default_map or {}), **load_config(value)}
    return value


def _image_options(function: F) -> F:
    for decorate in reversed(
        (
            option("--resize", metavar="SIZE", help="256, or WIDTHxHEIGHT; else sizes stay."),
            option(
                "--resize-mode",
                type=Name(RESIZE_MODES),
                default="short",
                help="What gets SIZE: the shorter side, the longer, both (exact, crop, pad).",
            ),
            option(
                "--filter",
                type=Name(FILTERS),
                default="bicubic",
                help="Resampling filter, antialiased.",
            ),
            option("--upscale/--no-upscale", default=True, help="Enlarge smaller pictures."),
            option(
                "--codec",
                type=Name(registry.names("codecs")),
                default="jpeg",
                help="How pictures are stored.",
            ),
            option("--quality", type=click.IntRange(1, 100), default=90, help="Of jpeg and webp."),
            option(
                "--subsampling",
                type=Name(SUBSAMPLINGS),
                default="4:2:0",
                help="Of jpeg's colours.",
            ),
            option(
                "--reencode",
                is_flag=True,
                default=False,
                help="Encode anew even pictures that need no change.",
            ),
            option(
                "--exact-decode",
                is_flag=True,
                default=False,
                help="Never decode at a reduced scale.",
            ),
            option(
                "--background",
                default="white",
                metavar="COLOUR",
                help="Under transparent pixels and around padded pictures: white, black, #rrggbb.",
            ),
        )
    ):
        function = decorate(function)
    return function


def _pack_options(function: F) -> F:
    for decorate in reversed(
        (
            option(
                "--format",
                type=Name(registry.names("formats")),
                default="tar",
                help="Of the shards.",
            ),
            option(
                "--batch-size",
                type=click.IntRange(min=1),
                default=128,
                help="Samples in one on-disk batch.",
            ),
            option("--shard-size", type=Bytes(), default="256MB", help="Bytes a shard comes near."),
            option(
                "--order",
                type=Name(ORDERS),
                default="shuffled",
                help="Of the samples in the pack.",
            ),
            option("--seed", type=int, default=0, help="Of the shuffled order."),
            option(
                "--split", metavar="SPEC", help="train=0.8,val=0.2 by hash of the path, or none."
            ),
            option("--split-seed", type=int, default=0, help="Of the split."),
            option(
                "--exclude-class",
                "exclude_classes",
                multiple=True,
                metavar="FOLDER",
                help="Leave a class out, as if its folder were not there; repeatable.",
            ),
        )
    ):
        function = decorate(function)
    return function


def _run_options(function: F) -> F:
    for decorate in reversed(
        (
            option(
                "-j", "--jobs", type=click.IntRange(min=1), help="Worker processes [all cores]."
            ),
            option("--backend", type=Name(BACKENDS), default="loky", help="Of the workers."),
            option(
                "--scheduler",
                metavar="tcp://HOST:PORT|FILE",
                help="With --backend dask: where its scheduler is, or the file that it wrote.",
            ),
            option("--part", type=Part(), help="Make only the shards i with i mod N = K."),
            option(
                "--merge-when-complete",
                is_flag=True,
                default=False,
                help="With --part: the last part joins them, as packer merge does.",
            ),
            option(
                "--on-error",
                type=Name(ON_ERROR),
                default="skip",
                help="What to do with a picture that cannot be stored.",
            ),
            option(
                "--max-skipped",
                type=click.IntRange(min=0),
                help="Stop (exit 3) beyond this many [1 %, at least 10].",
            ),
            path_option(
                "--config",
                metavar="NAME|FILE",
                callback=_load_config,
                is_eager=True,
                help="Preset of options: nfs, ssd, ram, or a YAML file.",
            ),
            click.option(
                "--dry-run", is_flag=True, help="Plan, say what would be made, write nothing."
            ),
            click.option(
                "--force",
                is_flag=True,
                help="Move an earlier pack away to OUT.old-…; deletes nothing.",
            ),
        )
    ):
        function = decorate(function)
    return function


@click.command(epilog="Every option can also be set as PACKER_NAME in the environment.")
@click.argument("source")
@path_option(
    "--src", metavar="PATH", help="Folder or archive of a recipe's data set; top folder of a list."
)
@click.option(
    "--null", is_flag=True, help="SOURCE lists paths that end in a zero byte: find -print0."
)
@path_option("-o", "--out", metavar="FOLDER", help="The pack [./NAME-SIZE-CODEC-FORMAT].")
@_image_options
@_pack_options
@_run_options
@reporting_options
@click.pass_context
def command(ctx: click.Context, /, source: str, **values: Any) -> None:
    """Convert an image folder, an archive or a recipe's data set into a pack.

    SOURCE can also be a list of paths, one a line: a file named .txt, .lst or .list, or - for
    standard input.

    Prints the pack's path. The same command goes on where an interrupted one stopped.
    """
    reporter = make_reporter(values["progress"], quiet=values["quiet"], verbose=values["verbose"])
    given = _open(source, reporter, values)
    options = _options(ctx, given, values)
    try:
        if values["dry_run"]:
            _dry_run(given, options, reporter, values)
        else:
            _convert(given, options, reporter, values)
    finally:
        reporter.close()


def _open(source: str, reporter: StderrReporter, values: dict[str, Any]) -> Input:
    """The source: a list of paths, or whatever else the user names."""
    from packer.input import open_input, open_list
    from packer.sources import listed
    from packer.types import display_path

    path = Path(source)
    if not (source == "-" or values["null"] or listed.accepts(path)):
        data = path_variable("PACKER_DATA")
        return open_input(source, src=values["src"], data=data)
    content = sys.stdin.buffer.read() if source == "-" else listed.read_list(path)
    given = open_list(content, top=values["src"], null=values["null"])
    single = given.source.single_folder() if isinstance(given.source, listed.ListedSource) else None
    if single is not None:
        reporter.warn(
            f"all listed files are in {display_path(single)}/, which makes one class;"
            " --src names the folder whose folders are the classes"
        )
    return given


def _options(ctx: click.Context, given: Input, values: dict[str, Any]) -> ConvertOptions:
    """Flags > environment > config > recipe > defaults."""
    chosen: dict[str, Any] = {}
    for field in dataclasses.fields(ConvertOptions):
        value = values[field.name]
        from_default = ctx.get_parameter_source(field.name) is ParameterSource.DEFAULT
        if from_default and field.name in given.defaults:
            value = given.defaults[field.name]
        chosen[field.name] = tuple(value) if field.name == "exclude_classes" else value
    return ConvertOptions(**chosen)


def _convert(
    given: Input, options: ConvertOptions, reporter: StderrReporter, values: dict[str, Any]
) -> None:
    from packer.convert import convert_dataset
    from packer.packing.job import output_folder

    out = Path(values["out"]) if values["out"] else output_folder(given.name, options, Path.cwd())
    reporter.note(f"source: {given.location}")
    reporter.note(f"output: {out.absolute()}")
    start = time.monotonic()
    result = convert_dataset(
        given,
        out,
        options,
        force=values["force"],
        reporter=reporter,
        job_name=batch_job(os.environ),
    )
    reporter.close()
    seconds = time.monotonic() - start
    if values["as_json"]:
        click.echo(json.dumps(_as_json(result, seconds)))
        return
    _summarise(result, reporter, seconds)
    click.echo(os.fspath(result.out))


def _as_json(result: ConvertResult, seconds: float) -> dict[str, Any]:
    value = {"schema": "packer.convert/1", **as_json(result), "seconds": round(seconds, 3)}
    if result.manifest is None:
        value["missing"] = result.missing
    return value


def _summarise(result: ConvertResult, reporter: StderrReporter, seconds: float) -> None:
    if result.manifest is None:
        reporter.note(
            f"this part is done; shards of other parts still to be made: {result.missing}"
            if result.missing
            else f"this part is done, and all others are: packer merge {result.out}"
        )
        return
    summarise(result, reporter)
    if not result.was_complete:
        rate = result.manifest.counts["planned"] / seconds
        reporter.note(f"took {seconds:.1f} s, {rate:,.0f} images/s")


def _dry_run(
    given: Input, options: ConvertOptions, reporter: StderrReporter, values: dict[str, Any]
) -> None:
    from packer.packing.job import make_job

    job = make_job(given, options, reporter)
    value = _planned(job)
    if values["as_json"]:
        click.echo(json.dumps(value))
        return
    for name, split in value["splits"].items():
        click.echo(f"{name}\t{split['samples']} images\t{split['shards']} shards")


def _planned(job: Job) -> dict[str, Any]:
    shards = list(job.plan.shards())
    return {
        "schema": "packer.plan/1",
        "planned": job.planned,
        "classes": len(job.labelling.classes),
        "ignored": dict(job.ignored()),
        "splits": {
            name: {
                "samples": end - first,
                "shards": sum(shard.split == name for shard in shards),
            }
            for name, (first, end) in job.plan.splits.items()
        },
        "options": job.options.affecting_bytes(),
    }
