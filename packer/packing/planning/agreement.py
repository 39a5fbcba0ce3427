"""What all runs that make one pack must agree on: OUT/.packer/plan.json.

It holds all that a manifest needs beside the finished shards, so parts can be joined without the
source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import packer
from packer import registry
from packer.codecs import load_codec
from packer.errors import UsageError
from packer.formats import load_format
from packer.imaging import libraries
from packer.pack.manifest import Manifest, SplitRecord
from packer.packing.planning.form import check_plan
from packer.packing.planning.plan import ShardPlan, plan_shards
from packer.settings.options import ConvertOptions
from packer.types import Field

#: Version of OUT/.packer; a run of another version does not go on from it.
_VERSION = 2


@dataclass(frozen=True)
class Agreement:
    """One pack as decided before the first picture is decoded.

    Attributes:
        name: Of the data set.
        options: Those that affect bytes, as JSON values.
        libraries: Versions of the libraries that decide bytes.
        listing_sha256: Digest of the scanned list.
        classes: Class folders.
        display_names: Their names for people.
        splits: By name: (first slot, end slot).
        shard_batches: Batches in a shard.
        ignored: Files of the source that are in no shard by rule, by reason. Runs need not agree
            on it: the first one's is kept.
    """

    name: str
    options: Mapping[str, Any]
    libraries: Mapping[str, str]
    listing_sha256: str
    classes: tuple[str, ...]
    display_names: tuple[str, ...]
    splits: Mapping[str, tuple[int, int]]
    shard_batches: int
    ignored: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """JSON values, with names that can be read in an error."""
        return {
            "version": _VERSION,
            "name": self.name,
            "options": dict(self.options),
            "libraries": dict(self.libraries),
            "source listing": self.listing_sha256,
            "classes": list(self.classes),
            "display names": list(self.display_names),
            "splits": {name: list(span) for name, span in self.splits.items()},
            "shard batches": self.shard_batches,
            "ignored": dict(self.ignored),
        }

    @property
    def planned(self) -> int:
        """Number of slots."""
        return sum(end - first for first, end in self.splits.values())

    @property
    def fields(self) -> tuple[Field, ...]:
        """Fields of every sample."""
        return image_fields(self.options["codec"])

    def shards(self) -> list[ShardPlan]:
        """All shards in order, split by split."""
        return list(plan_shards(self.splits, self.options["batch_size"], self.shard_batches))

    def shard_name(self, shard: ShardPlan) -> str:
        """File name of one shard."""
        return f"{shard.stem}.{load_format(self.options['format'], self.libraries).EXTENSION}"

    def manifest(self, splits: Mapping[str, SplitRecord], counts: Mapping[str, Any]) -> Manifest:
        """The manifest of the finished pack."""
        return Manifest(
            name=self.name,
            format=self.options["format"],
            batch_size=self.options["batch_size"],
            fields=self.fields,
            classes=self.classes,
            display_names=self.display_names,
            splits=splits,
            counts=counts,
            options=self.options,
            libraries=self.libraries,
            listing_sha256=self.listing_sha256,
        )


def agreement_from_json(value: Any) -> Agreement:
    """The other way round.

    Raises:
        UsageError: Another version of packer wrote it.
        ValueError: No agreement.
    """
    if not isinstance(value, dict) or not isinstance(value.get("version"), int):
        raise ValueError("it has no version")
    if value["version"] != _VERSION:
        raise UsageError(
            f"the unfinished pack is of version {value['version']}, this packer's are {_VERSION}",
            "finish it with the packer that began it, or start anew with --force",
        )
    check_plan(value)
    for kind in ("codec", "format"):
        registry.require_offered(f"{kind}s", value["options"][kind], value["libraries"])
    return Agreement(
        name=value["name"],
        options=value["options"],
        libraries=value["libraries"],
        listing_sha256=value["source listing"],
        classes=tuple(value["classes"]),
        display_names=tuple(value["display names"]),
        splits={name: (first, end) for name, (first, end) in value["splits"].items()},
        shard_batches=value["shard batches"],
        ignored=value["ignored"],
    )


def made_with(options: ConvertOptions) -> dict[str, str]:
    """Versions of packer and of all that decides a pack's bytes, plug-ins included, by name."""
    return {
        "packer": packer.__version__,
        **libraries.versions(),
        **registry.provenance(codec=options.codec, format=options.format),
    }


def image_fields(codec: str) -> tuple[Field, ...]:
    """The fields of a pack of labelled pictures."""
    extension = load_codec(codec).EXTENSION
    return (Field("image", "image", extension, codec), Field("label", "label", "cls"))
