"""`packer convert`."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from packer.cli._job import batch_job
from packer.cli._options import (
    WARNINGS,
    Bytes,
    Name,
    Offered,
    Part,
    option,
    path_option,
    reporting_options,
)
from packer.cli._planning import check, dry_run
from packer.cli._reporter import StderrReporter, make_reporter
from packer.cli._sample import draw_once
from packer.cli._source import open_source
from packer.cli._summary import as_json, name_next_steps, summarise
from packer.errors import ConfigError
from packer.settings.options import (
    FILTERS,
    ON_ERROR,
    ORDERS,
    RESIZE_MODES,
    SUBSAMPLINGS,
    ConvertOptions,
    without_effect,
)

if TYPE_CHECKING:
    from packer.convert import ConvertResult
    from packer.input import Input

F = TypeVar("F", bound=Callable[..., Any])


def _load_config(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Eager: what the config says becomes the defaults of the options after it."""
    if value is not None:
        from packer.settings.configfile import load_config

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
                help="What gets --resize's SIZE: shorter side, longer, both (exact, crop, pad).",
            ),
            option("--filter", type=Name(FILTERS), default="bicubic", help="Filter of --resize."),
            option(
                "--upscale/--no-upscale", default=True, help="With --resize: enlarge small ones."
            ),
            option(
                "--codec",
                type=Offered("codecs"),
                default="jpeg",
                help="How pictures are stored.",
            ),
            option("--quality", type=click.IntRange(1, 100), default=90, help="Of jpeg, webp."),
            option(
                "--subsampling",
                type=Name(SUBSAMPLINGS),
                default="4:2:0",
                help="Chroma subsampling of --codec jpeg.",
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
                help="With --resize: never decode at a reduced scale.",
            ),
            option(
                "--background",
                default="white",
                metavar="COLOUR",
                help="Under transparent pixels and around padded pictures: white, black, #rrggbb.",
            ),
            option(
                "--keep-damaged",
                is_flag=True,
                default=False,
                help="Store JPEGs whose pixels are damaged or cut, noted as damaged.",
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
                type=Offered("formats"),
                default="tar",
                help="Format of the shards.",
            ),
            option(
                "--batch-size",
                type=click.IntRange(min=1),
                default=128,
                help="Samples in one on-disk batch.",
            ),
            option(
                "--shard-size",
                type=Bytes(),
                default="256MB",
                help="Target size of a shard, with unit: 256MB, 1GiB.",
            ),
            option(
                "--order",
                type=Name(ORDERS),
                default="shuffled",
                help="Order in the pack; sorted: as torchvision's ImageFolder lists pictures.",
            ),
            option("--seed", type=int, default=0, help="Seed of --order shuffled."),
            option(
                "--split",
                metavar="SPEC",
                help="By hash of the path, parts sum to 1: train=0.8,val=0.2; or none.",
            ),
            option("--split-seed", type=int, default=0, help="Seed of --split."),
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
            option(
                "--backend", type=Offered("backends"), default="loky", help="What runs the workers."
            ),
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
                "--check", is_flag=True, help="Look at the options alone; scan and write nothing."
            ),
            click.option(
                "--force",
                is_flag=True,
                help="Move an earlier pack away to OUT.old-…, beside the folder where a link leads;"
                " deletes nothing.",
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

    Prints the pack's path. The same command goes on where an interrupted one stopped, and makes
    again what a complete pack has lost.
    """
    reporter = make_reporter(values["progress"], quiet=values["quiet"], verbose=values["verbose"])
    for warning in ctx.meta.get(WARNINGS, ()):
        reporter.warn(warning)
    given = open_source(source, reporter, values["src"], values["null"])
    options = _options(ctx, given, values)
    try:
        if values["check"]:
            check(options, dry_run=values["dry_run"])
        elif values["dry_run"]:
            dry_run(
                given, options, _out(given, options, values), reporter, as_json=values["as_json"]
            )
        else:
            _convert(given, options, reporter, values)
    finally:
        reporter.close()


def _options(ctx: click.Context, given: Input, values: dict[str, Any]) -> ConvertOptions:
    """Flags > environment > config > recipe > defaults."""
    from packer.types import display_text

    chosen: dict[str, Any] = {}
    for field in dataclasses.fields(ConvertOptions):
        value = values[field.name]
        source = ctx.get_parameter_source(field.name)
        if source is ParameterSource.DEFAULT and field.name in given.defaults:
            value = given.defaults[field.name]
        if field.name == "exclude_classes":
            native = source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
            value = tuple(map(display_text, value) if native else value)
        chosen[field.name] = value
    options = ConvertOptions(**chosen)
    _refuse_without_effect(ctx, options)
    return options


def _refuse_without_effect(ctx: click.Context, options: ConvertOptions) -> None:
    """A flag is written for this one command, so one that changes nothing is a mistake. What comes
    from the environment or a file may be meant for other commands too: it is warned of.
    """
    for name, reason in without_effect(options).items():
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            negated = "no-" if getattr(options, name) is False else ""
            flag = f"--{negated}{name.replace('_', '-')}"
            raise ConfigError(f"{flag} has no effect {reason}", "leave it out")


def _convert(
    given: Input, options: ConvertOptions, reporter: StderrReporter, values: dict[str, Any]
) -> None:
    from packer.convert import convert_dataset
    from packer.types import display_text

    out = _out(given, options, values)
    reporter.note(f"source: {given.location}")
    reporter.note(f"output: {out.absolute()}")
    draw_once(given.source, os.environ, reporter)
    start = reporter.start_rates()
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
    click.echo(display_text(os.fspath(result.out)))


def _out(given: Input, options: ConvertOptions, values: dict[str, Any]) -> Path:
    from packer.packing.planning.job import output_folder

    return Path(values["out"] or output_folder(given.name, options, Path.cwd()))


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
    if not (result.was_complete or result.restored):
        fresh = reporter.last.fresh if reporter.last else 0  # without those of an earlier run
        reporter.note(f"took {seconds:.1f} s, {fresh / seconds:,.0f} images/s")
    name_next_steps(result, reporter)
