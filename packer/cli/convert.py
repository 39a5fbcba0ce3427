"""`packer convert`."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from packer.cli._job import batch_job
from packer.cli._options import SectionedCommand, convert_options, option, reporting_options
from packer.cli._planning import check, dry_run
from packer.cli._reporter import StderrReporter, make_reporter
from packer.cli._sample import draw_once
from packer.cli._source import open_source
from packer.cli._summary import as_json, name_next_steps, summarise
from packer.errors import ConfigError
from packer.settings.options import OPTIONS, ConvertOptions, without_effect

if TYPE_CHECKING:
    from packer.convert import ConvertResult
    from packer.input import Input


def _load_config(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Make a config's values the defaults of the other options; click parses this option first."""
    if value is not None:
        from packer.settings.configfile import load_config

        ctx.default_map = {**(ctx.default_map or {}), **load_config(value)}
    return value


def _config_help() -> str:
    from packer.settings.configfile import names

    return f"Preset of options: {', '.join(names())}, or a YAML file."


@click.command(cls=SectionedCommand)
@click.argument("source")
@option(
    "--src",
    metavar="PATH",
    is_path=True,
    help="Folder or archive of a recipe's data set; top folder of a list.",
)
@option("--null", is_flag=True, help="SOURCE lists paths that end in a zero byte: find -print0.")
@option(
    "-o",
    "--out",
    metavar="FOLDER",
    is_path=True,
    help="Folder of the pack.",
    show_default="./NAME-SIZE-CODEC-FORMAT",
)
@option(
    "--config",
    metavar="NAME|FILE",
    is_path=True,
    callback=_load_config,
    is_eager=True,
    late_help=_config_help,
)
@option("--dry-run", is_flag=True, help="Print the plan; write nothing.")
@option("--check", is_flag=True, help="Check the options; scan and write nothing.")
@option(
    "--force",
    is_flag=True,
    help="Move an earlier pack away to OUT.old-…, beside the folder where a link leads; deletes"
    " nothing.",
)
@reporting_options
@convert_options
@click.pass_context
def command(ctx: click.Context, /, source: str, **values: Any) -> None:
    """Convert an image folder, an archive or a recipe's data set into a pack.

    SOURCE can also be a list of paths, one a line: a file named .txt, .lst or .list, or - for
    standard input.

    Prints the pack's path. The same command continues an interrupted conversion, and restores
    missing files of a complete pack.
    """
    reporter = make_reporter(values["progress"], quiet=values["quiet"], verbose=values["verbose"])
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
    """Combine the values: flags before environment, config, recipe and defaults."""
    from packer.types import display_text

    chosen: dict[str, Any] = {}
    for name in OPTIONS:
        value = values[name]
        source = ctx.get_parameter_source(name)
        if source is ParameterSource.DEFAULT and name in given.defaults:
            value = given.defaults[name]
        if name == "exclude_classes":
            native = source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
            value = tuple(map(display_text, value) if native else value)
        chosen[name] = value
    options = ConvertOptions(**chosen)
    _refuse_without_effect(ctx, options)
    return options


def _refuse_without_effect(ctx: click.Context, options: ConvertOptions) -> None:
    """Raise a ConfigError for a flag without effect: it was written for this one command, so it is
    a mistake. A value from the environment or a file may be meant for other commands too and leads
    to a warning only.
    """
    for name, reason in without_effect(options).items():
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            negated = "no-" if getattr(options, name) is False else ""
            flag = f"--{negated}{OPTIONS[name].word}"
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
