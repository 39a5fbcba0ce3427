"""`packer recipes`."""

from __future__ import annotations

import dataclasses
import json
import sys

import click

from packer.cli._options import json_option


@click.group()
def command() -> None:
    """List recipes (descriptions of data sets), or show one."""


@command.command("list")
@json_option
def list_recipes(as_json: bool) -> None:
    """List the recipes that come with packer."""
    from packer import recipe

    found = [recipe.load(name) for name in recipe.names()]
    if as_json:
        rows = [{"name": known.name, "title": known.title} for known in found]
        click.echo(json.dumps({"schema": "packer.recipes/1", "recipes": rows}))
        return
    width = max(len(known.name) for known in found) + 2
    for known in found:
        click.echo(f"{known.name:<{width}}{known.title}")


@command.command()
@click.argument("name")
def show(name: str) -> None:
    """Show one recipe, by name or file, as YAML."""
    import yaml

    from packer import recipe

    known = dataclasses.asdict(recipe.load(name))
    shown = {key: value for key, value in known.items() if value not in ("", None, (), {})}
    yaml.safe_dump(json.loads(json.dumps(shown)), sys.stdout, sort_keys=False, allow_unicode=True)
