"""The HDF5 format: one contiguous, unfiltered data set per batch.

`batches/000000` … hold the concatenated payloads of a batch as bytes. Raw pictures of one size are
stored as n×H×W×3, with a virtual data set `images` over all batches. `columns/<name>` and
attributes, written at close, make the shard readable by h5py alone. The index holds the offset of
each data set in the file.

libhdf5 writes through `_Disk`, for three reasons: it keeps the true error of a full disk, it syncs
the file after the last write, and libhdf5 can close it after an error. (After an error on a file of
its own, libhdf5 prints messages from destructors.)
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from packer.errors import OutputError
from packer.formats import missing_library
from packer.formats._newfile import NewFile
from packer.formats._places import EndToEnd
from packer.types import Field, Sample, ShardLayout

EXTENSION = "h5"
EXTRA = "h5py"
WEBDATASET = False
#: Section of the pack's README.md on reading the shards without packer; see `packer.formats`.
READING = """
Each shard is one HDF5 file. A data set holds a batch of pictures:

```python
import h5py

with h5py.File("$shard", locking=False) as file:
    column = {name: dataset[:] for name, dataset in file["columns"].items()}
    batch = file["batches/000000"][:].tobytes()
offset, size = column["image.offset"], column["image.size"]
first, count = column["batch_first"][0], column["batch_count"][0]
images = [batch[offset[i] : offset[i] + size[i]] for i in range(first, first + count)]
labels = column["label"][first : first + count]
```
"""


class Writer:
    """Writes one HDF5 shard; see `packer.formats.ShardWriter`.

    Args:
        path: File to create; must not exist.
        fields: Fields of every sample.
        one_size: Whether all pictures have the same size.

    Raises:
        OutputError: The file system or HDF5 reported an error.
        MissingDependency: h5py is not installed.
    """

    def __init__(self, path: Path, fields: Sequence[Field], *, one_size: bool) -> None:
        try:
            import h5py
        except ImportError as error:
            raise missing_library("h5py") from error
        self._path = path
        self._payloads = EndToEnd(fields)
        self._offsets: list[int] = []
        self._pictures = _Pictures(fields, one_size)
        self._disk = _Disk(NewFile(path))
        try:
            with self._errors():
                # "earliest": the oldest layout that holds the data, without times in it.
                self._file: Any = h5py.File(self._disk, "w", libver="earliest", track_order=False)
                self._batches = self._file.create_group("batches", track_order=False)
        except BaseException:
            self._disk.abort()
            raise

    def add_batch(self, samples: Sequence[Sample]) -> None:
        """Append one batch, which may be empty.

        Raises:
            OutputError: The file system or HDF5 reported an error.
        """
        name = f"{len(self._offsets):06d}"
        data = np.frombuffer(self._payloads.add_batch(samples), np.uint8)
        data = data.reshape(self._pictures.shape(samples, name))
        with self._errors():
            dataset = self._batches.create_dataset(name, data=data, track_times=False)
            self._offsets.append(dataset.id.get_offset() or 0)  # an empty data set has no offset

    def close(self) -> ShardLayout:
        """Finish the file, synced to disk.

        Raises:
            OutputError: The file system or HDF5 reported an error.
        """
        with self._errors():
            group = self._file.create_group("columns", track_order=False)
            for name, array in self._payloads.columns().items():
                group.create_dataset(name, data=array, track_times=False)
            self._pictures.create_images(self._file)
            description = self._payloads.description("packer-hdf5")
            self._file.attrs["format"] = np.bytes_(description["format"])
            self._file.attrs["version"] = np.int64(description["version"])
            self._file.attrs["fields"] = np.bytes_(json.dumps(description["fields"]))
            self._file.close()
        self._disk.close()
        return self._payloads.layout(self._offsets)

    def abort(self) -> None:
        """Close the file without finishing it; never raises."""
        self._disk.drop_writes()
        with contextlib.suppress(Exception):  # the caller deletes the file
            self._file.close()
        self._disk.abort()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise errors of HDF5, which have several classes, as OutputErrors; raise disk errors."""
        try:
            yield
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            self._disk.drop_writes()
            refusal = OutputError(f"{self._path}: HDF5 refused: {error}")
            raise self._disk.error or refusal from error
        if self._disk.error is not None:
            raise self._disk.error


class _Disk:
    """The file object that libhdf5 writes through; h5py's "fileobj" driver calls its methods.

    They raise nothing, as libhdf5 may call the next one with an exception pending. Code that calls
    libhdf5 checks `error` afterwards.

    Attributes:
        error: The first error; nothing is written after it.
    """

    def __init__(self, file: NewFile) -> None:
        self.error: OutputError | None = None
        self._file = file
        self._position = 0
        self._end = 0
        self._dropping = False

    def drop_writes(self) -> None:
        """Ignore all further writes, so that libhdf5 can close without an error."""
        self._dropping = True

    def close(self) -> None:
        """Sync and close the file."""
        self._file.close()

    def abort(self) -> None:
        """Close the file without syncing; never raises."""
        self._file.abort()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset if whence == os.SEEK_SET else self._end + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int) -> bytes:
        with self._noting():
            return self._file.read(size, self._position)
        return b""

    def readinto(self, buffer: memoryview) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        buffer[len(data) :] = bytes(len(buffer) - len(data))  # zeros after the end of the file
        return len(buffer)

    def write(self, data: memoryview) -> int:
        if not self._dropping:
            with self._noting():
                self._file.write(data, self._position)
        self._end = max(self._end, self._position + len(data))
        return len(data)

    def truncate(self, size: int) -> int:
        if not self._dropping:
            with self._noting():
                self._file.truncate(size)
        self._end = size
        return size

    def flush(self) -> None:
        """Do nothing: there is no buffer."""

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except OutputError as error:
            self.error = self.error or error
            self.drop_writes()


class _Pictures:
    """Checks whether the pictures are raw and of one size, so that batches can be arrays."""

    def __init__(self, fields: Sequence[Field], one_size: bool) -> None:
        stored = [entry for entry in fields if entry.kind != "label"]
        self._name = stored[0].name if stored else ""
        self._regular = one_size and len(stored) == 1 and stored[0].codec == "raw"
        self._size: tuple[int, int] | None = None
        self._batches: list[tuple[str, int]] = []

    def shape(self, samples: Sequence[Sample], batch: str) -> tuple[int, ...]:
        """Return the shape of a batch's data set: (n, height, width, 3), or flat."""
        if not samples or not self._regular:
            return (-1,)
        if self._size is None:
            self._size = samples[0].width, samples[0].height
        width, height = self._size
        for sample in samples:
            nbytes = len(sample.payloads.get(self._name, b""))
            if (sample.width, sample.height) != self._size or nbytes != width * height * 3:
                self._regular = False  # one exception rules out an array of all pictures
                return (-1,)
        self._batches.append((batch, len(samples)))
        return len(samples), height, width, 3

    def create_images(self, file: Any) -> None:
        """Create the virtual data set `images` if there are batches and all are arrays."""
        if not self._regular or self._size is None:
            return
        from h5py import h5d, h5p, h5s, h5t

        width, height = self._size
        total = sum(count for _, count in self._batches)
        space = h5s.create_simple((total, height, width, 3))
        creation = h5p.create(h5p.DATASET_CREATE)
        creation.set_obj_track_times(False)  # h5py's own call for virtual data sets keeps times
        start = 0
        for batch, count in self._batches:
            shape = (count, height, width, 3)
            space.select_hyperslab((start, 0, 0, 0), shape)
            # "." is the file itself, whatever its name.
            creation.set_virtual(
                space, b".", f"/batches/{batch}".encode(), h5s.create_simple(shape)
            )
            start += count
        space.select_all()
        h5d.create(file.id, b"images", h5t.STD_U8LE, space, creation)
