"""One shard and its index: written under temp names, then published together.

The index is published first, so a shard under its final name always has its index.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from packer.errors import OutputError
from packer.files.fsio import (
    output_errors,
    publish,
    publish_over,
    remove_if_there,
    sha256_file,
)
from packer.files.naming import is_own_temp, temp_path
from packer.formats import ShardWriter, load_format
from packer.pack.columns import (
    ShardColumns,
    ShardRecord,
    encode_shard_index,
    fingerprint,
    index_name,
)
from packer.types import Field, Sample

#: Folder in the output that holds everything unfinished.
WORK_FOLDER = ".packer"


class ShardBuilder:
    """Writes one shard batch by batch.

    Args:
        out: The pack's folder; its WORK_FOLDER exists.
        name: The shard's file name, `<split>-000000.<extension>`.
        format_name: tar, lmdb, hdf5.
        fields: Fields of every sample.
        one_size: Whether all pictures have the same size.

    Raises:
        OutputError: The file system refused.
    """

    def __init__(
        self, out: Path, name: str, format_name: str, fields: Sequence[Field], one_size: bool
    ) -> None:
        self.name = name
        self._out = out
        self._temp = temp_path(out / WORK_FOLDER, name)
        self._columns = ShardColumns(fields)
        make_writer = load_format(format_name).Writer
        try:
            self._writer: ShardWriter = make_writer(self._temp, fields, one_size=one_size)
        except BaseException:
            remove_if_there(self._temp)
            raise

    def add_batch(self, samples: Sequence[Sample]) -> None:
        """Append one batch; an empty one is a batch too."""
        self._writer.add_batch(samples)
        self._columns.add_batch(samples)

    @property
    def samples(self) -> int:
        """Number of samples so far."""
        return len(self._columns.paths)

    def finish(self) -> ShardRecord:
        """Complete the file and make its index; publish neither yet."""
        layout = self._writer.close()
        with output_errors(self._temp):
            self._record = ShardRecord(
                name=self.name,
                size=self._temp.stat().st_size,
                sha256=layout.sha256 or sha256_file(self._temp),
                fingerprint=_fingerprint(self._temp),
                samples=self.samples,
                batches=len(self._columns.counts),
            )
        self._index = encode_shard_index(self._columns.arrays(layout), self._record)
        return self._record

    def publish(self) -> None:
        """Give the index and then the shard their final names.

        If another run was faster, its shard is kept if it is the same.

        Raises:
            OutputError: The file system refused, or another shard has that name.
        """
        publish_over(self._out / WORK_FOLDER, self._out / index_name(self.name), self._index)
        final = self._out / self.name
        if publish(self._temp, final):
            return
        remove_if_there(self._temp)
        if sha256_file(final) != self._record.sha256:
            raise OutputError(f"{final}: already there with other content", "use another --out")

    def abort(self) -> None:
        """Remove all files of an unfinished shard."""
        self._writer.abort()
        remove_if_there(self._temp)


def remove_own_temps(out: Path) -> None:
    """Remove temporary files left by a signal, which can arrive between any two instructions."""
    for path in (out / WORK_FOLDER).glob("*.tmp"):
        if is_own_temp(path):
            remove_if_there(path)


def _fingerprint(path: Path) -> tuple[int, int]:
    with path.open("rb") as file:
        return fingerprint(file.fileno(), path.stat().st_size)
