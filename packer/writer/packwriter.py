"""Write packs from data that does not lie in a folder.

    from packer.writer import PackWriter

    with PackWriter("shapes", classes=["circle", "square"]) as writer:
        writer.write(image=pixels, label="circle", key="circle/1.png", split="train")

Pictures are resized and encoded as by `packer convert`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from packer import formats
from packer.arguments import explain_unknown, shown
from packer.attributes import ReadOnly
from packer.codecs import load_codec
from packer.errors import ImageError, OutputError, TooManySkipped, UsageError
from packer.files.fsio import make_folder, publish_over
from packer.files.paths import given_path
from packer.files.regular import read_json, reason
from packer.imaging import libraries
from packer.notes import note_bits
from packer.pack.manifest import Manifest, SplitRecord
from packer.packing.finish import count, finish_pack
from packer.packing.lock import Lock
from packer.packing.planning.agreement import made_with
from packer.packing.shards import state
from packer.packing.shards.shard import WORK_FOLDER
from packer.packing.skips import allowed_skips, judge_skips
from packer.raised import Contained, annotate
from packer.settings.options import ConvertOptions
from packer.settings.parsing import SPLIT_NAME
from packer.types import NO_LABEL, Encoded, Sample, Skip, display_path, path_bytes
from packer.writer.pictures import encode_picture
from packer.writer.settings import OnError, Order, check_run, settings_of, what_to_write
from packer.writer.split import Finished, SplitTarget, SplitWriter, splits_there
from packer.writer.spool import Spool


class PackWriter:
    """Write a pack sample by sample; a context manager.

    Leaving the block writes the indexes and the manifest. If an exception leaves it, finished
    shards are kept and a note on the exception counts them: `PackWriter(…, resume=True)` and the
    same writes continue after them. `abort` removes all written files.

    Args:
        out: The pack's folder: empty, missing, or with `resume` an unfinished pack.
        classes: Class names; a sample's label is one of them, or its index. None: samples without
            labels.
        options: How pictures are made and packed (resize, codec, format, batch and shard size).
        fields: Further fields, kept as bytes: the extension of their members in tar shards by name,
            such as {"caption": "txt"}.
        order: "written": samples are packed in the order in which they are written, so write them
            in shuffled order: on-disk batches then mix classes. "shuffled": encoded samples wait in
            a file in `out` and are packed in random order at the end; this temporarily takes twice
            the disk space, and no shard is finished before the end.
        seed: Seed of the order "shuffled", which depends only on it and on the samples' keys.
        on_error: Effect of a picture that cannot be stored. "raise": `write` raises ImageError and
            changes nothing, so that the caller can continue; "skip": the picture is counted and
            listed with the reason in the pack's skipped.jsonl.
        max_skipped: How many pictures may be skipped; None: 1 % of them, at least 10.
        resume: Continue an unfinished pack, if there is one. The same samples must be written again
            in the same order; pictures in finished shards are not encoded again.

    Raises:
        UsageError: `out` is not empty, holds an unfinished pack with other settings, or an argument
            is invalid.
        InUse: Another process writes there.
        OutputError: The file system refused.
    """

    @explain_unknown(what_to_write)
    def __init__(
        self,
        out: str | os.PathLike[str],
        *,
        classes: Sequence[str] | None = None,
        options: ConvertOptions | None = None,
        fields: Mapping[str, str] | None = None,
        order: Order = "written",
        seed: int = 0,
        on_error: OnError = "raise",
        max_skipped: int | None = None,
        resume: bool = False,
    ) -> None:
        libraries.require_converting()
        check_run(order, on_error, max_skipped, resume=resume)
        self._settings = settings_of(classes, options, fields, order, seed)
        self._skipping = on_error, max_skipped
        self._out = given_path(out, "out").absolute()
        formats.require(self._settings.options.format)
        self._resume = resume
        self._splits: dict[str, SplitWriter] = {}
        self._spools: dict[str, Spool] = {}
        self._keys: set[bytes] = set()
        self._done: dict[
            bytes, int
        ] = {}  # slots of samples in finished shards, not yet written again
        self._slots = 0
        self._skips: list[Skip] = []
        self._notes: Counter[str] = Counter()
        self._size: tuple[int, int] | None = None  # of all pictures, where the codec needs one
        self._begin()

    out: ReadOnly[Path] = ReadOnly(lambda self: self._out)
    classes: ReadOnly[tuple[str, ...]] = ReadOnly(lambda self: self._settings.classes)
    options: ReadOnly[ConvertOptions] = ReadOnly(lambda self: self._settings.options)
    fields: ReadOnly[dict[str, str]] = ReadOnly(lambda self: dict(self._settings.further))
    order: ReadOnly[str] = ReadOnly(lambda self: self._settings.order)
    seed: ReadOnly[int] = ReadOnly(lambda self: self._settings.seed)
    on_error: ReadOnly[str] = ReadOnly(lambda self: self._skipping[0])
    max_skipped: ReadOnly[int | None] = ReadOnly(lambda self: self._skipping[1])
    resume: ReadOnly[bool] = ReadOnly(lambda self: self._resume)

    @explain_unknown(what_to_write)
    def write(
        self,
        *,
        image: Any,
        key: str,
        label: Any = NO_LABEL,
        split: str = "train",
        fields: Mapping[str, bytes] | None = None,
    ) -> bool:
        """Add one sample.

        Args:
            image: A picture's file as bytes, or its path (coded pixels that need no change are
                kept); a PIL image; its pixels, upright, uint8: an array H×W×3 (RGB), H×W×1 or H×W
                (gray), or a torch tensor, also 3×H×W or 1×H×W.
            key: Name of the sample, like a path; unique in the pack.
            label: A class's name, or its index (any integer type); NO_LABEL (-1): none.
            split: Name of its split.
            fields: Bytes of the writer's further fields; a field left out is absent in this sample.

        Returns:
            Whether it is packed; False if it was skipped.

        Raises:
            ImageError: The picture cannot be stored; nothing was written, and writing can continue.
            TooManySkipped: More pictures than `max_skipped` were skipped.
            UsageError: The key was written already; the label, split name or field is invalid;
                after `resume`, the order differs.
            OutputError: The file system refused.
        """
        path = path_bytes(key)
        if path in self._keys:
            raise UsageError(f"key {key!r} was written already", "keys name samples: once each")
        number = self._settings.label(label, key)
        if not isinstance(split, str) or not SPLIT_NAME.fullmatch(split):
            raise UsageError(f"invalid split {shown(split)}", "letters, digits and _")
        further = self._settings.payloads(fields or {}, key)
        if path in self._done:
            self._pass_over(path, key)
            return True
        try:
            with Contained(f"reading the picture of {key!r}"):
                picture = self._encode(image)
        except ImageError as error:
            if self.on_error == "raise":
                raise
            self._skip(path, error)
            return False
        sample = Sample(
            slot=self._slots,
            path=path,
            label=number,
            width=picture.width,
            height=picture.height,
            payloads={"image": picture.payload, **further},
            notes=note_bits(picture.notes),
        )
        self._add(split, sample)
        self._notes.update(picture.notes)
        return True

    def close(self) -> Manifest:
        """Complete the pack.

        Raises:
            TooManySkipped: More pictures were skipped than allowed.
            UsageError: After `resume`, a sample of a finished shard was not written again.
            OutputError: The file system refused.
        """
        if self._done:
            key = display_path(next(iter(self._done)))
            raise UsageError(
                f"{len(self._done)} samples of finished shards were not written again: {key!r}",
                "with resume=True, write the same samples; use another folder for others",
            )
        self._judge()
        first = 0
        for name, spool in self._spools.items():
            for sample in spool.shuffled(first):
                self._split(name).add(sample)
                first = sample.slot + 1
            spool.remove()
        manifest = finish_pack(self._out, self._draft(), self._skips)
        self._lock.__exit__(None, None, None)
        return manifest

    def abort(self) -> None:
        """Remove all written files, finished shards included."""
        self._abandon()
        for writer in self._splits.values():
            writer.remove()
        state.remove_work_folder(self._out)
        self._lock.__exit__(None, None, None)

    def __enter__(self) -> PackWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            annotate(error, self._keep())
            return
        try:
            self.close()
        except BaseException as failure:
            annotate(failure, self._keep())
            raise

    def _begin(self) -> None:
        work = self._out / WORK_FOLDER
        there = self._out.is_dir() and (work / state.WRITER_NAME).exists()
        if there and not self._resume:
            raise UsageError(
                f"{self._out}: holds an unfinished pack",
                "resume=True continues it; or remove the folder",
            )
        if not there and not _is_empty(self._out):
            raise UsageError(f"{self._out}: is not an empty folder", "use another folder")
        make_folder(work)
        self._lock = Lock(work, None)
        self._lock.__enter__()
        self._lock.keep_alive()
        try:
            self._agree(work / state.WRITER_NAME)
            finished = Finished()
            for split in splits_there(self._target):
                self._split(split).take_over(finished)
            self._done, self._notes = finished.slots, finished.notes
            self._size = finished.size
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise

    def _agree(self, path: Path) -> None:
        ours = self._settings.to_json()
        if path.exists():
            try:
                theirs = read_json(path)
                if not isinstance(theirs, dict):
                    raise ValueError("it holds no object")
            except (OSError, ValueError) as error:
                raise OutputError(
                    f"{path}: is damaged: {reason(error)}", "remove the folder"
                ) from error
            if difference := state.describe_difference(theirs, ours):
                raise UsageError(
                    f"{self._out}: holds an unfinished pack with {difference}",
                    "give the same arguments, or remove the folder",
                )
        else:
            publish_over(path.parent, path, json.dumps(ours).encode())

    @property
    def _target(self) -> SplitTarget:
        options = self._settings.options
        return SplitTarget(
            out=self._out,
            format=options.format,
            fields=self._settings.fields,
            batch_size=options.batch_size,
            shard_size=options.shard_size,
            one_size=options.image.one_size or load_codec(options.codec).ONE_SIZE,
        )

    def _split(self, name: str) -> SplitWriter:
        if name not in self._splits:
            self._splits[name] = SplitWriter(self._target, name)
        return self._splits[name]

    def _pass_over(self, path: bytes, key: str) -> None:
        """Skip a sample that is in a finished shard."""
        slot = self._done.pop(path)
        if slot != self._slots:
            raise UsageError(
                f"key {key!r} was number {slot} and is number {self._slots} now",
                "with resume=True, write the same samples in the same order",
            )
        self._keys.add(path)
        self._slots += 1

    def _encode(self, image: Any) -> Encoded:
        options = self._settings.options
        picture = encode_picture(image, options.image)
        size = picture.width, picture.height
        if load_codec(options.codec).ONE_SIZE:
            if self._size not in (None, size):
                width, height = self._size or size
                raise ImageError(
                    "bad-size",
                    f"{size[0]} x {size[1]} pixels, but the first picture has {width} x {height}; "
                    f"codec {options.codec} needs one size, which resize with resize_mode crop or"
                    " pad makes",
                )
            self._size = size
        return picture

    def _add(self, split: str, sample: Sample) -> None:
        self._keys.add(sample.path)
        self._slots += 1
        if self.order == "written":
            self._split(split).add(sample)
            return
        if split not in self._spools:
            self._spools[split] = Spool(self._out / WORK_FOLDER, self.seed)
        self._spools[split].add(sample)

    def _skip(self, path: bytes, error: ImageError) -> None:
        self._skips.append(Skip(self._slots, path, error.reason, error.detail))
        self._keys.add(path)
        self._slots += 1
        if self.max_skipped is not None and len(self._skips) > self.max_skipped:
            self._judge()

    def _judge(self) -> None:
        if self._skips:
            allowed = allowed_skips(self._slots, self.max_skipped)
            try:
                judge_skips(self._skips, self._slots, allowed)
            except TooManySkipped as error:
                raise TooManySkipped(error.message, "PackWriter(…, max_skipped=…)") from None

    def _draft(self) -> Manifest:
        settings = self._settings
        splits = {}
        for name, writer in self._splits.items():
            writer.flush()
            splits[name] = SplitRecord.of_shards(name, writer.records)
        return Manifest(
            name=self._out.name,
            format=settings.options.format,
            batch_size=settings.options.batch_size,
            fields=settings.fields,
            classes=settings.classes,
            display_names=settings.classes,
            splits=splits,
            counts=count(self._slots, self._skips, notes=self._notes),
            options=settings.affecting_bytes(),
            libraries=made_with(settings.options),
        )

    def _abandon(self) -> None:
        """Remove unfinished files."""
        for spool in self._spools.values():
            spool.remove()
        for writer in self._splits.values():
            writer.abandon()

    def _keep(self) -> str:
        """Keep finished shards; return a note about them."""
        records = [record for writer in self._splits.values() for record in writer.records]
        if not records or self.order == "shuffled":
            self.abort()
            return f"{self._out}: nothing was finished, so nothing is kept"
        self._abandon()
        self._lock.__exit__(None, None, None)
        samples = sum(record.samples for record in records)
        return (
            f"{self._out}: {len(records)} finished shards with {samples} samples are kept; "
            "PackWriter(…, resume=True) and the same writes continue after them"
        )


def _is_empty(out: Path) -> bool:
    """Whether the folder is missing or empty, but for files of a process killed at its start."""
    if not out.exists():
        return True
    names = {path.name for path in out.iterdir()} if out.is_dir() else {out.name}
    return names <= {WORK_FOLDER} and not (out / WORK_FOLDER / state.PLAN_NAME).exists()
