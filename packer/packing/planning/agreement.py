"""What all runs that make one pack must agree on: OUT/.packer/plan.json.

An agreement holds everything that a manifest needs except the finished shards, so parts can be
joined without the source.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from packer import registry
from packer.codecs import load_codec
from packer.errors import UsageError
from packer.formats import load_format
from packer.imaging.libraries import all_versions
from packer.pack.manifest import Manifest, SplitRecord
from packer.packing.planning.form import check_plan
from packer.packing.planning.plan import ShardPlan, plan_shards
from packer.settings.options import ConvertOptions
from packer.types import Field

#: Version of OUT/.packer; a run of another version does not continue it.
_VERSION = 2


@dataclass(frozen=True)
class Agreement:
    """One pack as decided before the first picture is decoded.

    Attributes:
        pack: The pack's manifest as far as it is known: without splits, counts and files.
        splits: By name: (first slot, end slot).
        shard_batches: Batches in a shard.
        ignored: Files of the source that are in no shard by rule, by reason. Runs need not agree
            on it: the first run's counts are kept.
    """

    pack: Manifest
    splits: Mapping[str, tuple[int, int]]
    shard_batches: int
    ignored: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """JSON values under names that errors can quote."""
        pack = self.pack
        return {
            "version": _VERSION,
            "name": pack.name,
            "options": dict(pack.options),
            "libraries": dict(pack.libraries),
            "source listing": pack.listing_sha256,
            "classes": list(pack.classes),
            "display names": list(pack.display_names),
            "splits": {name: list(span) for name, span in self.splits.items()},
            "shard batches": self.shard_batches,
            "ignored": dict(self.ignored),
        }

    @property
    def planned(self) -> int:
        """Number of slots."""
        return sum(end - first for first, end in self.splits.values())

    def shards(self) -> list[ShardPlan]:
        """All shards in order, split by split."""
        return list(plan_shards(self.splits, self.pack.batch_size, self.shard_batches))

    def shard_name(self, shard: ShardPlan) -> str:
        """File name of one shard."""
        return f"{shard.stem}.{load_format(self.pack.format, self.pack.libraries).EXTENSION}"

    def manifest(self, splits: Mapping[str, SplitRecord], counts: Mapping[str, Any]) -> Manifest:
        """The manifest of the finished pack."""
        return dataclasses.replace(self.pack, splits=splits, counts=counts)


def agreement_from_json(value: Any) -> Agreement:
    """Parse what `Agreement.to_json` made.

    Raises:
        UsageError: Another version of packer wrote it.
        ValueError: The value is not an agreement.
    """
    if not isinstance(value, dict) or not isinstance(value.get("version"), int):
        raise ValueError("it has no version")
    if value["version"] != _VERSION:
        raise UsageError(
            f"the unfinished pack is of version {value['version']}, this packer's are {_VERSION}",
            "finish it with the packer that began it, or start again with --force",
        )
    check_plan(value)
    for kind in ("codec", "format"):
        registry.require_offered(f"{kind}s", value["options"][kind], value["libraries"])
    return Agreement(
        pack=unfinished_pack(
            name=value["name"],
            options=value["options"],
            libraries=value["libraries"],
            listing_sha256=value["source listing"],
            classes=tuple(value["classes"]),
            display_names=tuple(value["display names"]),
        ),
        splits={name: (first, end) for name, (first, end) in value["splits"].items()},
        shard_batches=value["shard batches"],
        ignored=value["ignored"],
    )


def made_with(options: ConvertOptions) -> dict[str, str]:
    """Versions of packer and of everything that decides a pack's bytes, plug-ins included."""
    plugins = registry.provenance(codec=options.codec, format=options.format)
    return all_versions(plugins)


def unfinished_pack(*, options: Mapping[str, Any], **others: Any) -> Manifest:
    """The manifest of a pack of labelled pictures, without splits, counts and files.

    Args:
        options: Options that affect bytes, as JSON values.
        **others: Name, classes and other values of `Manifest` that do not follow from the options.
    """
    return Manifest(
        format=options["format"],
        batch_size=options["batch_size"],
        fields=image_fields(options["codec"]),
        splits={},
        options=options,
        **others,
    )


def image_fields(codec: str) -> tuple[Field, ...]:
    """The fields of a pack of labelled pictures."""
    extension = load_codec(codec).EXTENSION
    return (Field("image", "image", extension, codec), Field("label", "label", "cls"))
