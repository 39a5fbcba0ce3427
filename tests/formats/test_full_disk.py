"""A full disk or a limit: one OutputError, nothing printed by a library, nothing left open."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from packer import registry
from packer.errors import OutputError
from packer.testing.shards import build_shard, image_fields
from tests.formats.shards import MakeBatches

#: Writes each format's shard under ever higher limits of a file's size; one JSON line each.
_SCRIPT = """
import gc, json, resource, signal, sys
from pathlib import Path
from packer import registry
from packer.errors import OutputError
from packer.types import Field, Sample

folder = Path(sys.argv[1])
fields = (Field("image", "bytes", "jpg"), Field("label", "label", "cls"))
payload = bytes(range(256)) * 100
samples = [Sample(slot, b"p", 1, 1, 1, {"image": payload}) for slot in range(16)]
batches = [samples[start : start + 4] for start in range(0, 16, 4)]

def write(path, module):
    writer = module.Writer(path, fields, one_size=False)
    try:
        for batch in batches:
            writer.add_batch(batch)
        writer.close()
    except OutputError:
        writer.abort()
        raise

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for name in registry.names("formats"):
    module = registry.load("formats", name)
    write(folder / f"{name}-whole", module)
    whole = (folder / f"{name}-whole").stat().st_size
    for limit in (1, 5000, 100_000, whole - 5000, whole - 1):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        message = "no error"
        try:
            write(folder / f"{name}-{limit}", module)
        except OutputError as error:
            message = str(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        gc.collect()
        print(json.dumps([name, limit, message]))
"""


_SMALL_BYTES = 256 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_SMALL_BYTES}", "tmpfs", str(tmp_path)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("may not mount a small file system here")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_size_limit(tmp_path: Path) -> None:
    """Wherever the limit strikes, in a batch, in the columns or in the last byte, it is named."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == 5 * len(registry.names("formats"))
    for name, limit, message in results:
        expected = f"{tmp_path / f'{name}-{limit}'}: File too large (the file system or ulimit -f"
        assert message.startswith(expected), (name, limit, message)


def _fits(path: Path, format_name: str, batches: Any) -> bool:
    """Whether a shard of these batches fits into the small file system."""
    shard = build_shard(path, format_name, image_fields(None), batches)
    return shard.path.stat().st_size <= _SMALL_BYTES


@pytest.mark.parametrize("format_name", registry.names("formats"))
@pytest.mark.parametrize("counts", [[4] * 40, [14]], ids=["in-a-batch", "at-the-end"])
def test_full_file_system(
    small_disk: Path,
    tmp_path_factory: pytest.TempPathFactory,
    make_batches: MakeBatches,
    format_name: str,
    counts: list[int],
) -> None:
    path = small_disk / "shard"
    writer = registry.load("formats", format_name).Writer(path, image_fields(None), one_size=False)
    batches = make_batches(counts, size=(619, 10))  # 14 of them, 2 KB below the limit
    if len(counts) == 1 and _fits(tmp_path_factory.mktemp("roomy") / "shard", format_name, batches):
        pytest.skip("the format writes too little behind the last batch to meet the limit there")

    def write() -> None:
        for batch in batches:
            writer.add_batch(batch)
        writer.close()

    with pytest.raises(OutputError, match="shard: No space left on device") as caught:
        write()
    assert "free some space" in str(caught.value)
    writer.abort()
    path.unlink()
