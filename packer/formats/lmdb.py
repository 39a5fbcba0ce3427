"""The LMDB format: one value and one commit per batch, in one file of the size of its data.

Keys, in the order in which they are appended: `batch/000000000` … (the concatenated payloads of a
batch), `column/<name>` (a `.npy` file each) and `meta` (JSON). They make the shard readable by the
lmdb library alone. The index holds the offset of each value in the file, found by `_lmdb_tree`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from packer.errors import OutputError
from packer.files.fsio import output_error, output_errors
from packer.formats import missing_library
from packer.formats._lmdb_tree import read_tree
from packer.formats._newfile import NewFile
from packer.formats._places import EndToEnd, batch_bytes
from packer.types import Array, Field, Sample, ShardLayout

EXTENSION = "lmdb"
EXTRA = "lmdb"
WEBDATASET = False
#: Section of the pack's README.md on reading the shards without packer; see `packer.formats`.
READING = """
Each shard is one LMDB file, so `lmdb.open` needs its name and `subdir=False`; of this folder it
would make a new, empty data base. A value holds a batch of pictures:

```python
import io, lmdb, numpy as np

env = lmdb.open("$shard", subdir=False, readonly=True, lock=False)
with env.begin() as txn:
    names = ("batch_first", "batch_count", "label", "image.offset", "image.size")
    column = {n: np.load(io.BytesIO(txn.get(b"column/" + n.encode()))) for n in names}
    batch = txn.get(b"batch/%09d" % 0)
env.close()
offset, size = column["image.offset"], column["image.size"]
first, count = column["batch_first"][0], column["batch_count"][0]
images = [batch[offset[i] : offset[i] + size[i]] for i in range(first, first + count)]
labels = column["label"][first : first + count]
```
"""

#: The size of a value is a u32 in the file.
MAX_BATCH_BYTES = (1 << 32) - 1
#: Bytes by which the map grows when the data need it. A map of a terabyte would fail under
#: `ulimit -v`, and the file stores the size of the map, which must depend only on the data.
_MAP_STEP = 1 << 24
#: Pages that one commit may need in addition to its values: branches and leaves on the path to the
#: last key, at most 32 levels, and the same for the list of free pages.
_COMMIT_PAGES = 2 * 32
_PAGE_HEADER = 16
#: Errors that LMDB reports for a partial write, whatever the cause. A write of our own after the
#: end of the file then fails with the true cause.
_CUT_SHORT = (errno.EIO, errno.ENOSPC)
_PROBE = bytes(1 << 16)


class Writer:
    """Writes one LMDB shard; see `packer.formats.ShardWriter`.

    Args:
        path: File to create; must not exist.
        fields: Fields of every sample.
        one_size: Ignored; part of the `ShardWriter` protocol.

    Raises:
        OutputError: The file system or LMDB reported an error.
        MissingDependency: py-lmdb is not installed.
    """

    def __init__(self, path: Path, fields: Sequence[Field], *, one_size: bool) -> None:
        try:
            import lmdb
        except ImportError as error:
            raise missing_library("lmdb") from error
        self._lmdb_error: type[Exception] = lmdb.Error
        self._fields = fields
        self._payloads = EndToEnd(fields)
        self._keys: list[bytes] = []
        # Created here first: an existing file is an error, and the umask applies.
        self._file = NewFile(path)
        self._env: Any = None
        try:
            with self._errors():
                self._env = lmdb.open(
                    os.fsencode(path),
                    subdir=False,
                    lock=False,
                    map_size=_MAP_STEP,
                    sync=False,  # `close` syncs once and checks the result
                    meminit=True,  # else unused bytes would hold old memory
                )
                self._page_bytes: int = self._env.stat()["psize"]
        except BaseException:
            self._file.abort()
            raise

    def add_batch(self, samples: Sequence[Sample]) -> None:
        """Append one batch, which may be empty, and commit.

        Raises:
            OutputError: The batch has 4 GiB or more, or the file system or LMDB reported an error.
        """
        size = batch_bytes(samples, self._fields)
        if size > MAX_BATCH_BYTES:
            raise OutputError(
                f"{self._file.path}: batch {len(self._keys)} has {size} bytes, LMDB holds less "
                "than 4 GiB in one value",
                "use a smaller --batch-size",
            )
        key = b"batch/%09d" % len(self._keys)
        self._keys.append(key)
        self._commit({key: self._payloads.add_batch(samples)})

    def close(self) -> ShardLayout:
        """Finish the file, synced to disk.

        Raises:
            OutputError: The file system or LMDB reported an error.
        """
        columns = self._payloads.columns()
        values = {f"column/{name}".encode(): npy_bytes(columns[name]) for name in columns}
        meta = {**self._payloads.description("packer-lmdb"), "batches": len(self._keys)}
        values[b"meta"] = json.dumps(meta).encode()
        self._commit(dict(sorted(values.items())))
        with self._errors():
            self._env.sync(True)
        self._close_env()
        with output_errors(self._file.path):
            tree = read_tree(self._file.path)
        # LMDB does not write freed pages at the end, but its file must include them.
        self._file.truncate(tree.pages * tree.page_bytes)
        self._file.close()
        return self._payloads.layout(tree.values[key][0] for key in self._keys)

    def abort(self) -> None:
        """Close the file without finishing it; never raises."""
        with contextlib.suppress(self._lmdb_error):  # the caller deletes the file
            self._close_env()
        self._file.abort()

    def _commit(self, values: Mapping[bytes, bytes]) -> None:
        with self._errors():
            self._make_room(sum(self._pages(value) for value in values.values()))
            with self._env.begin(write=True) as transaction:
                for key, value in values.items():
                    # With append=True, False is the only report of keys out of order.
                    if not transaction.put(key, value, append=True):
                        raise OutputError(f"{self._file.path}: LMDB refused the key {key!r}")

    def _make_room(self, pages: int) -> None:
        info = self._env.info()
        needed = (info["last_pgno"] + 1 + pages + _COMMIT_PAGES) * self._page_bytes
        if needed > info["map_size"]:
            self._env.set_mapsize(-(-needed // _MAP_STEP) * _MAP_STEP)

    def _pages(self, value: bytes) -> int:
        return -(-(_PAGE_HEADER + len(value)) // self._page_bytes)

    def _close_env(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            env.close()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise errors of LMDB, which are no OSErrors, as OutputErrors."""
        try:
            yield
        except self._lmdb_error as error:
            code = _system_code(error)
            if code in _CUT_SHORT:
                self._file.write(_PROBE, self._file.size())
            if code > 0:
                cause = OSError(code, os.strerror(code))
                raise output_error(self._file.path, cause) from error
            raise OutputError(f"{self._file.path}: {error}") from error


def _system_code(error: Exception) -> int:
    """Return the errno of an LMDB error; py-lmdb before 3.0 has it only in the message."""
    code = getattr(error, "code", None) or 0
    named = (known for known in (errno.ENOSPC, errno.EIO) if os.strerror(known) in str(error))
    return code or next(named, 0)


def npy_bytes(array: Array) -> bytes:
    """Return an array as a `.npy` file (format 1.0); its header depends on no numpy version."""
    text = f"{{'descr': {array.dtype.str!r}, 'fortran_order': False, 'shape': {array.shape}, }}"
    prefix = b"\x93NUMPY\x01\x00"
    # Prefix, length and header together are a multiple of 64, ended by a newline.
    room = -(len(prefix) + 2 + len(text) + 1) % 64
    header = text.encode("ascii") + b" " * room + b"\n"
    data = np.ascontiguousarray(array).tobytes()
    return prefix + len(header).to_bytes(2, "little") + header + data
