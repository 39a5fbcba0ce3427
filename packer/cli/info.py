"""`packer info`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from packer.cli._options import json_option, option
from packer.wording import count

if TYPE_CHECKING:
    from packer.pack.manifest import Manifest


@click.command()
@click.argument("pack", type=click.Path(path_type=Path))
@json_option
@option("--shuffle", is_flag=True, help="Measure how well each shuffle mode mixes the pack.")
@option("--split", metavar="NAME", help="With --shuffle: the split.", show_default="the first one")
@option(
    "--batch-size",
    type=click.IntRange(2),
    default=128,
    help="With --shuffle: samples in a mini-batch.",
)
@option(
    "--window",
    type=click.IntRange(1),
    default=16,
    help="With --shuffle: on-disk batches shuffled together.",
)
@option(
    "--epochs",
    type=click.IntRange(2),
    default=3,
    help="With --shuffle: epochs to measure.",
)
@click.pass_context
def command(
    ctx: click.Context,
    pack: Path,
    as_json: bool,
    shuffle: bool,
    split: str | None,
    batch_size: int,
    window: int,
    epochs: int,
) -> None:
    """Describe a pack, or measure how well it shuffles."""
    from packer.escape import BACKSLASH, escape
    from packer.pack.manifest import read_manifest

    if shuffle:
        from packer.cli._shuffle import measure_shuffles

        found = measure_shuffles(pack, split, batch_size, window, epochs)
        click.echo(json.dumps(found.as_json()) if as_json else found.as_text())
        return
    _refuse_alone(ctx, ("split", "batch_size", "window", "epochs"))
    manifest = read_manifest(pack)
    if as_json:
        click.echo(json.dumps({"schema": "packer.info/1", **dataclasses.asdict(manifest)}))
        return
    for name, value in _lines(manifest):
        click.echo(f"{name:<12}{escape(str(value), keep=BACKSLASH)}")


def _refuse_alone(ctx: click.Context, names: Sequence[str]) -> None:
    """Raise an error for flags that need --shuffle, instead of ignoring them."""
    for name in names:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} goes with --shuffle", ctx)


def _lines(manifest: Manifest) -> list[tuple[str, Any]]:
    lines: list[tuple[str, Any]] = [
        ("name", manifest.name),
        ("format", f"{manifest.format}, {count(manifest.batch_size, 'sample')} a batch"),
        ("images", _describe_images(manifest)),
        ("classes", len(manifest.classes)),
    ]
    for name, split in manifest.splits.items():
        size = sum(shard.size for shard in split.shards)
        mean = f", {size / split.samples / 1000:.1f} kB a sample" if split.samples else ""
        shards = f"{count(len(split.shards), 'shard')} of {count(split.batches, 'batch')}"
        lines.append(
            (name, f"{count(split.samples, 'sample')}, {shards}, {size / 1e6:,.1f} MB{mean}")
        )
    counts = manifest.counts
    skipped = f"{counts['packed']} of {counts['planned']}, {counts['skipped']} skipped"
    lines.append(("packed", skipped))
    if whole := counts.get("excerpt_of"):
        samples, shards = count(whole["samples"], "sample"), count(whole["shards"], "shard")
        lines.append(("excerpt of", f"{samples}, {shards}"))
    for title in ("ignored", "notes"):
        if counts.get(title):
            found = ", ".join(f"{number} {name}" for name, number in counts[title].items())
            lines.append((title, found))
    versions = ", ".join(f"{name} {version}" for name, version in manifest.libraries.items())
    lines.append(("made with", versions))
    return lines


def _describe_images(manifest: Manifest) -> str:
    options = manifest.options
    size = "as in the source"
    if options.get("resize") is not None:
        size = f"{options['resize']} {options.get('resize_mode')}, {options.get('filter')}"
    return f"{size}, {_describe_codec(str(options.get('codec')), manifest)}"


def _describe_codec(name: str, manifest: Manifest) -> str:
    """The codec and its settings; a plug-in's distribution is among the libraries."""
    from packer.codecs import load_codec
    from packer.errors import UsageError

    try:
        settings = load_codec(name, manifest.libraries).describe(manifest.options)
    except UsageError as error:  # a plug-in that is missing or broken; the rest can be shown
        return f"{name} ({error})"
    return f"{name} {settings}".rstrip()
