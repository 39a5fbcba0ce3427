"""Packs from data that is in no folder.

    from packer.writer import PackWriter

    with PackWriter("shapes", classes=["circle", "square"]) as writer:
        writer.write(image=pixels, label=0, key="circle/1.png", split="train")

Samples are packed in the order they are written, so write them in shuffled order: batches then mix
classes. Pictures are resized and encoded as `packer convert` does.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import packer
from packer import formats, registry
from packer.columns import ShardRecord, index_name
from packer.errors import ImageError, PackerError, UsageError, suggestion
from packer.fsio import make_folder, remove_if_there
from packer.imaging import libraries
from packer.manifest import Manifest
from packer.options import ConvertOptions
from packer.packing.agreement import image_fields
from packer.packing.finish import FinishedSplit, count, finish_pack, finish_split
from packer.packing.labels import SPLIT_NAME
from packer.packing.lock import Lock
from packer.packing.shard import WORK_FOLDER, ShardBuilder
from packer.packing.state import remove_work_folder
from packer.paths import given_path
from packer.transcode import transcode, transcode_pixels
from packer.types import NO_LABEL, Encoded, Field, Pixels, Sample

#: Becomes part of array names in the index, of data set names in HDF5, of member names in tar.
_FIELD_NAME = re.compile(r"[a-z][a-z0-9_]*")


class PackWriter:
    """Writes a pack sample by sample; a context manager.

    Leaving the block writes the indexes and the manifest; leaving it by an exception removes what
    was written.

    Args:
        out: The pack's folder; must be empty or not there.
        classes: Class names; a sample's label is an index into them. None: samples without labels.
        options: How pictures are made and packed; those about splits, order and jobs have no
            meaning here.
        fields: Further fields, kept as bytes: the extension of their members in tar shards by name,
            such as {"caption": "txt"}.

    Raises:
        UsageError: `out` is not empty, or a field's name or extension cannot be.
        OutputError: The file system refused.
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        *,
        classes: Sequence[str] | None = None,
        options: ConvertOptions | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> None:
        libraries.require_converting()
        self.out = given_path(out, "out").absolute()
        self._options = options or ConvertOptions()
        formats.require(self._options.format)
        self._classes = tuple(classes or ())
        self._fields = image_fields(self._options.codec)
        self._fields += _further_fields(self._fields, fields or {})
        if self.out.exists() and (not self.out.is_dir() or any(self.out.iterdir())):
            raise UsageError(f"{self.out}: is not an empty folder", "use another folder")
        make_folder(self.out / WORK_FOLDER)
        self._lock = Lock(self.out / WORK_FOLDER, None)
        self._lock.__enter__()
        self._lock.keep_alive()
        self._splits: dict[str, _SplitWriter] = {}
        self._keys: set[bytes] = set()
        self._notes: Counter[str] = Counter()

    def write(
        self,
        *,
        image: Pixels | bytes,
        key: str,
        label: int = NO_LABEL,
        split: str = "train",
        fields: Mapping[str, bytes] | None = None,
    ) -> None:
        """Add one sample.

        Args:
            image: A picture's file as bytes, or its pixels: H×W×3 uint8, RGB, upright.
            key: Names the sample, as a path would; unique in the pack.
            label: Index into the pack's classes, or NO_LABEL.
            split: Name of its split.
            fields: Bytes of the writer's further fields; those left out are absent in this sample.

        Raises:
            ImageError: The picture cannot be stored; nothing was written, go on if you like.
            UsageError: A key for the second time, a label that is no class, no split name, a field
                that the writer was not told of or that is no bytes.
            OutputError: The file system refused.
        """
        path = os.fsencode(key)
        if path in self._keys:
            raise UsageError(f"key {key!r} was written already", "keys name samples: once each")
        if label != NO_LABEL and not 0 <= label < len(self._classes):
            raise UsageError(f"label {label} of {key!r} is none of {len(self._classes)} classes")
        if not SPLIT_NAME.fullmatch(split):
            raise UsageError(f"{split!r} cannot name a split", "letters, digits and _")
        further = self._further(fields or {}, key)
        picture = self._encode(image)
        sample = Sample(
            slot=len(self._keys),
            path=path,
            label=label,
            width=picture.width,
            height=picture.height,
            payloads={"image": picture.payload, **further},
        )
        self._keys.add(path)
        self._notes.update(picture.notes)
        if split not in self._splits:
            self._splits[split] = _SplitWriter(self.out, split, self._options, self._fields)
        self._splits[split].add(sample)

    def close(self) -> Manifest:
        """Complete the pack."""
        splits = {}
        for name, writer in self._splits.items():
            writer.flush()
            finished = FinishedSplit(name, writer.records)
            splits[name] = finish_split(self.out, self._fields, finished)
        manifest = Manifest(
            name=self.out.name,
            format=self._options.format,
            batch_size=self._options.batch_size,
            fields=self._fields,
            classes=self._classes,
            display_names=self._classes,
            splits=splits,
            counts=count(len(self._keys), [], notes=self._notes),
            options=self._options.affecting_bytes(),
            libraries={"packer": packer.__version__, **libraries.versions()},
        )
        finish_pack(self.out, manifest, [])
        self._lock.__exit__(None, None, None)
        return manifest

    def abort(self) -> None:
        """Remove what was written."""
        for writer in self._splits.values():
            writer.abort()
        remove_work_folder(self.out)
        self._lock.__exit__(None, None, None)

    def __enter__(self) -> PackWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            try:
                self.close()
            except PackerError:
                self.abort()
                raise
        else:
            self.abort()

    def _further(self, given: Mapping[str, bytes], key: str) -> dict[str, bytes]:
        known = [field.name for field in self._fields if field.kind == "bytes"]
        for name, value in given.items():
            if name not in known:
                raise UsageError(
                    f"unknown field {name!r} of {key!r}",
                    suggestion(name, known) if known else "name it in PackWriter(fields=…)",
                )
            if not isinstance(value, bytes | bytearray | memoryview):
                raise UsageError(
                    f"field {name!r} of {key!r} is {type(value).__name__}, not bytes",
                    "text: text.encode()",
                )
        return {name: bytes(value) for name, value in given.items()}

    def _encode(self, image: Pixels | bytes) -> Encoded:
        if isinstance(image, bytes | bytearray | memoryview):
            return transcode(bytes(image), self._options.image)
        if image.ndim != 3 or image.shape[2] != 3 or image.dtype.name != "uint8":
            raise ImageError(
                "undecodable", f"pixels are {image.shape} {image.dtype}, not H×W×3 uint8"
            )
        return transcode_pixels(image, self._options.image)


def _further_fields(taken: Sequence[Field], given: Mapping[str, str]) -> tuple[Field, ...]:
    """Fields of bytes, checked against those there are."""
    names = {field.name for field in taken} | {"key"}  # streams yield the path under that name
    extensions = {field.extension for field in taken}
    for name, extension in given.items():
        if not _FIELD_NAME.fullmatch(name) or name in names:
            raise UsageError(
                f"{name!r} cannot name a field", "a lower-case word, not image, label or key"
            )
        if not _FIELD_NAME.fullmatch(extension) or extension in extensions:
            raise UsageError(
                f"extension {extension!r} of field {name!r} cannot be",
                f"a lower-case word, none of {', '.join(sorted(extensions))}",
            )
        extensions.add(extension)
    return tuple(Field(name, "bytes", extension) for name, extension in given.items())


class _SplitWriter:
    """One split's shards, one after the other."""

    def __init__(
        self, out: Path, split: str, options: ConvertOptions, fields: Sequence[Field]
    ) -> None:
        self.records: list[ShardRecord] = []
        self._out = out
        self._split = split
        self._options = options
        self._fields = fields
        self._waiting: list[Sample] = []
        self._builder: ShardBuilder | None = None
        self._bytes = 0

    def add(self, sample: Sample) -> None:
        self._waiting.append(sample)
        if len(self._waiting) == self._options.batch_size:
            self._write_batch()
            if self._bytes >= self._options.shard_size:
                self._finish_shard()

    def flush(self) -> None:
        """Write what waits and finish the last shard."""
        if self._waiting:
            self._write_batch()
        if self._builder is not None:
            self._finish_shard()

    def abort(self) -> None:
        """Remove all of this split's files."""
        if self._builder is not None:
            self._builder.abort()
        for record in self.records:
            remove_if_there(self._out / record.name)
            remove_if_there(self._out / index_name(record.name))
        remove_if_there(self._out / f"{self._split}.index")

    def _write_batch(self) -> None:
        if self._builder is None:
            extension = registry.load("formats", self._options.format).EXTENSION
            self._builder = ShardBuilder(
                self._out,
                f"{self._split}-{len(self.records):06d}.{extension}",
                self._options.format,
                self._fields,
                self._options.image.one_size,
            )
        self._builder.add_batch(self._waiting)
        self._bytes += sum(
            len(payload) for sample in self._waiting for payload in sample.payloads.values()
        )
        self._waiting = []

    def _finish_shard(self) -> None:
        assert self._builder is not None, "called with a shard open"
        self.records.append(self._builder.finish())
        self._builder.publish()
        self._builder, self._bytes = None, 0
