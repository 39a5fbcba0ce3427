"""One conversion as planned, before anything is written."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from packer.errors import SourceError, UsageError
from packer.input import Input
from packer.pack.columns import ShardRecord
from packer.packing.planning.agreement import Agreement, made_with, unfinished_pack
from packer.packing.planning.labels import Labelling, label_candidates
from packer.packing.planning.plan import Plan, ShardPlan, listing_digest, make_plan
from packer.packing.planning.stamps import changed_files, encode_stamps
from packer.packing.shards.batch import BatchTask, Slot
from packer.packing.shards.making import ShardTarget
from packer.packing.skips import allowed_skips
from packer.reporting import Reporter
from packer.settings.options import ConvertOptions
from packer.types import Array, Listing, Skip, display_path, native_text


@dataclass(frozen=True)
class Job:
    """Everything that decides a conversion.

    Attributes:
        given: The source and its recipe.
        options: The user's options.
        listing: The scanned list.
        labelling: Class and split of each candidate.
        plan: The place of each candidate.
        agreement: Values that all runs that make this pack must agree on.
        expected: Records that shards must match because they existed before, by name.
        suspect: Probable cause of a difference from `expected`, for an error.
    """

    given: Input
    options: ConvertOptions
    listing: Listing
    labelling: Labelling
    plan: Plan
    agreement: Agreement
    expected: Mapping[str, ShardRecord] = field(default_factory=dict)
    suspect: str = ""

    @property
    def planned(self) -> int:
        """Number of slots."""
        return self.agreement.planned

    @property
    def max_skipped(self) -> int:
        """How many samples may be skipped."""
        return allowed_skips(self.planned, self.options.max_skipped)

    def own_shards(self) -> list[ShardPlan]:
        """The shards that this run makes: all, or those of its part."""
        shards = list(self.plan.shards())
        if self.options.part is None:
            return shards
        number, parts = self.options.part
        return shards[number::parts]

    def tasks(self, shard: ShardPlan) -> Iterator[BatchTask]:
        """The batches of one shard, in order."""
        for first, end in shard.batches:
            slots = tuple(
                Slot(number, path, label, self.listing.missing.get(path, ""))
                for number, path, label in zip(
                    range(first, end),
                    map(self.listing.paths.__getitem__, self.plan.candidate[first:end].tolist()),
                    self.plan.label[first:end].tolist(),
                    strict=True,
                )
            )
            fail = self.options.on_error == "fail"
            yield BatchTask(self.given.source, self.options.image, slots, fail)

    def target(self, out: Path, shard: ShardPlan) -> ShardTarget:
        """The description of one shard in the folder `out`."""
        name = self.agreement.shard_name(shard)
        return ShardTarget(
            out=out,
            plan=shard,
            name=name,
            format=self.agreement.pack.format,
            fields=self.agreement.pack.fields,
            one_size=self.options.image.one_size,
            stamps=self.stamps(shard),
            expected=self.expected.get(name),
            suspect=self.suspect,
        )

    def stamps(self, shard: ShardPlan) -> str:
        """Stamps of a shard's source files, made of sizes, times and inodes, to detect changes."""
        chosen = self._candidates(shard)
        inodes = self.listing.inodes
        return encode_stamps(
            self.listing.sizes[chosen],
            self.listing.stamps[chosen],
            np.zeros(len(chosen), "<i8") if inodes is None else inodes[chosen],
        )

    def changed(self, shard: ShardPlan, stamps: str) -> list[bytes]:
        """Paths of the shard's source files that changed since it had these stamps."""
        chosen = self._candidates(shard)
        numbers = changed_files(stamps, self.stamps(shard))
        return [self.listing.paths[chosen[number]] for number in numbers]

    def _candidates(self, shard: ShardPlan) -> Array:
        return self.plan.candidate[shard.batches[0][0] : shard.batches[-1][1]]

    def missing(self) -> list[Skip]:
        """Skips known before any file is read: missing files."""
        if not self.listing.missing:
            return []
        paths = map(self.listing.paths.__getitem__, self.plan.candidate.tolist())
        return [
            Skip(slot, path, "missing", self.listing.missing[path])
            for slot, path in enumerate(paths)
            if path in self.listing.missing
        ]


def make_job(
    given: Input, options: ConvertOptions, reporter: Reporter, out: Path | None = None
) -> Job:
    """Scan the source and plan its conversion.

    Args:
        given: The source and its recipe.
        options: The user's options.
        reporter: Receives warnings and the scan's progress.
        out: The pack's folder, which may lie in the source.

    Raises:
        SourceError: The source has no pictures, or its recipe refuses it.
        ConfigError: The options do not fit the source.
    """
    options.require_one_size()
    listing = given.source.scan(given.litter, reporter.scanned, out)
    for reason, paths in sorted(listing.ignored_examples.items()):
        more = listing.ignored[reason] - len(paths)
        shown = ", ".join(map(display_path, paths)) + (f" and {more} more" if more else "")
        reporter.detail(f"ignored, {reason}: {shown}")
    if packs := listing.ignored.get("pack", 0):
        shown = ", ".join(map(display_path, listing.ignored_examples["pack"]))
        reporter.note(f"passed over what packer made, {packs} in all: {shown}")
    if not listing.paths:
        found = ", ".join(f"{count} {reason}" for reason, count in sorted(listing.ignored.items()))
        raise SourceError(
            f"{given.location}: no pictures there" + (f" (ignored: {found})" if found else ""),
            "a source is a folder or archive with one folder of pictures a class",
        )
    if options.split is None:
        options = dataclasses.replace(options, split=given.split)
    labelling = label_candidates(
        listing,
        split=options.split,
        split_seed=options.split_seed,
        exclude=options.exclude_classes,
    )
    given.refuse_unlabelled(labelling.unlabelled)
    classes = None if options.exclude_classes else len(labelling.classes)
    expectations = given.expectations(len(listing.paths), classes)
    for warning in (*expectations, *labelling.warnings, *_lost_links(listing)):
        reporter.warn(warning)
    plan = make_plan(listing, labelling, options)
    if not len(plan.candidate):
        raise SourceError(f"{given.location}: every picture is left out", "see --exclude-class")
    agreement = Agreement(
        pack=unfinished_pack(
            name=given.name,
            options=options.affecting_bytes(),
            libraries=made_with(options),
            listing_sha256=listing_digest(listing),
            classes=labelling.classes,
            display_names=tuple(map(given.display_name, labelling.classes)),
        ),
        splits=plan.splits,
        shard_batches=plan.shard_batches,
        ignored=dict(sorted((Counter(listing.ignored) + Counter(labelling.left_out)).items())),
    )
    return Job(given, options, listing, labelling, plan, agreement)


def _lost_links(listing: Listing) -> Iterator[str]:
    """A warning about broken links, which may replace folders of pictures."""
    if count := listing.ignored.get("broken-link", 0):
        shown = ", ".join(map(display_path, listing.ignored_examples["broken-link"]))
        links = "1 link leads" if count == 1 else f"{count} links lead"
        yield f"{links} nowhere, in place of folders perhaps: {shown}"


def output_folder(name: str, options: ConvertOptions, folder: Path) -> Path:
    """Default output folder: `NAME-256-jpeg-tar` in `folder`.

    Raises:
        UsageError: The source has no name, such as the root folder.
    """
    visible = native_text(name).lstrip(".")
    if not visible:
        raise UsageError("the source has no name that the pack could have", "give -o FOLDER")
    parts = [visible, str(options.resize or "full")]
    if options.resize_mode != "short" and options.resize:
        parts.append(options.resize_mode)
    return folder / "-".join([*parts, options.codec, options.format])
