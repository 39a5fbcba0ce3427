"""Files beside tar shards for other readers: DALI, wids, timm.

    <split>-000000.idx    DALI's index of one shard, version 1.2 (`tools/wds2idx.py` of DALI)
    <split>.wids.json     wids' list of a split's shards (`wids_specs.py` of webdataset)
    _info.json            timm's list of all splits (`timm/data/readers/reader_wds.py`)

All content follows from the split indexes; no shard is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from packer.errors import DamageError
from packer.formats import load_format
from packer.formats.tar import BLOCK, file_prefix, label_text, member_name, padded
from packer.pack.columns import cut_shard
from packer.pack.index_form import open_split_index
from packer.pack.manifest import Manifest, SplitRecord
from packer.types import ABSENT, Array, Field


def companion_files(out: Path, manifest: Manifest) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of each companion file of a pack; none if its shards are not tar.

    Args:
        out: The pack's folder; the split indexes are there.
        manifest: The pack's manifest.

    Raises:
        DamageError: A split's index is damaged or does not fit tar shards of these fields.
    """
    if not load_format(manifest.format, manifest.libraries).WEBDATASET:
        return
    lengths: dict[str, list[int]] = {}
    for split, record in manifest.splits.items():
        lengths[split] = []
        index = open_split_index(out, manifest, split)
        for number, shard in enumerate(record.shards):
            lines = member_lines(cut_shard(index, number, manifest.fields), manifest.fields)
            lengths[split].append(len(lines))
            yield f"{PurePath(shard.name).stem}.idx", dali_index(lines)
        if record.shards:  # wids refuses an empty list
            yield f"{split}.wids.json", wids_json(record, lengths[split])
    yield "_info.json", timm_info(manifest, lengths)


def member_lines(columns: Mapping[str, Array], fields: Sequence[Field]) -> list[str]:
    """One line a sample of a tar shard: `<extension> <offset> <size> <name>` of each member.

    Offsets are those of the members' data, after their tar headers. Samples without members have
    no line, as readers of tar files do not find them.

    Args:
        columns: The shard's columns, see `packer.pack.columns.cut_shard`.
        fields: The pack's fields, in the members' order.

    Raises:
        DamageError: The columns are not those of a tar shard with these fields.
    """
    rows = {name: array.tolist() for name, array in columns.items()}
    sizes = _Sizes(rows, fields)
    lines: list[str] = []
    sample = 0
    for batch, count in enumerate(rows["batch_count"]):
        start = end = rows["batch_offset"][batch]
        for row in range(sample, sample + count):
            members = []
            for entry, size in sizes.members(row, end):
                name = member_name(rows["slot"][row], entry.extension)
                members.append(f"{entry.extension} {end + BLOCK} {size} {name}")
                end += BLOCK + padded(size)
            if members:
                lines.append(" ".join(members))
        if end - start != rows["batch_bytes"][batch]:
            raise DamageError(f"batch {batch}: its members do not add up to its size")
        sample += count
    return lines


def dali_index(lines: Sequence[str]) -> bytes:
    """DALI's index file of a shard with these members."""
    return "".join(f"{line}\n" for line in (f"v1.2 {len(lines)}", *lines)).encode("ascii")


def wids_json(split: SplitRecord, lengths: Sequence[int]) -> bytes:
    """One split for wids; URLs are relative to it.

    The optional `md5sum` is left out: wids compares it nowhere, and the manifest has the sha256.
    """
    shards = [
        {"url": shard.name, "nsamples": length, "filesize": shard.size}
        for shard, length in zip(split.shards, lengths, strict=True)
    ]
    return _json({"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": shards})


def timm_info(manifest: Manifest, lengths: Mapping[str, Sequence[int]]) -> bytes:
    """All splits for timm."""
    splits = {
        name: {
            "name": name,
            "num_samples": sum(lengths[name]),
            "filenames": [shard.name for shard in split.shards],
            "shard_lengths": list(lengths[name]),
        }
        for name, split in manifest.splits.items()
    }
    return _json({"splits": splits})


class _Sizes:
    """Sizes of a shard's members, from its columns as lists."""

    def __init__(self, rows: Mapping[str, list[int]], fields: Sequence[Field]) -> None:
        self._rows = rows
        self._fields = [(entry, file_prefix(entry)) for entry in fields]

    def members(self, row: int, start: int) -> Iterator[tuple[Field, int]]:
        """(field, bytes) of each member of a sample that starts at `start`."""
        rows = self._rows
        for entry, file_header in self._fields:
            if entry.kind == "label":
                text = label_text(rows["label"][row])
                if text is None:
                    continue
                size = len(text)
            else:
                offset = rows[f"{entry.name}.offset"][row]
                if offset == ABSENT:
                    continue
                prefix = len(file_header(rows["width"][row], rows["height"][row]))
                if offset != start + BLOCK + prefix:
                    raise DamageError(f"slot {rows['slot'][row]}: lies where no tar member does")
                size = prefix + rows[f"{entry.name}.size"][row]
            yield entry, size
            start += BLOCK + padded(size)


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()
