"""tests/reader/test_signatures.py walks all arguments; here is what some of them say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from packer.reader.elsewhere import what_to_write


@pytest.mark.parametrize(
    ("owner", "name", "words"),
    [
        ("Loader", "num_workers", "threads=…"),
        ("Loader", "prefetch_factor", "ahead=…"),
        ("Loader", "drop_last", "tail='drop'"),
        ("Loader", "verify", "PackedDataset(…, verify=…)"),
        ("BatchStream", "num_workers", "DataLoader(stream, batch_size=None, num_workers=…)"),
        ("BatchStream", "drop_last", "tail='drop'"),
        ("BatchStream", "transform", "PackedDataset(…, transform=…)"),
        ("BatchStream", "threads", "Loader(…, threads=…)"),
        ("MixedStream", "drop_last", "each BatchStream: tail='drop'"),
        ("MixedStream", "batch_size", "BatchStream(…, batch_size=…) takes it, for each stream"),
        ("WindowSampler", "collate_fn", "DataLoader(dataset, batch_sampler=sampler, collate_fn=…)"),
        ("PackedDataset", "shuffle", "DataLoader(dataset, shuffle=…)"),
        ("PackedDataset", "fields", "BatchStream(…, fields=…)"),
        ("PackedDataset", "loader", "decode="),
        ("PackedDataset", "num_replicas", "world_size=…"),
    ],
)
def test_what_to_write(owner: str, name: str, words: str) -> None:
    assert words in what_to_write(owner, name)


def test_nothing_to_say() -> None:
    assert what_to_write("Loader", "colour") == ""


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from packer.errors import UsageError
from packer.reader import PackedDataset
for name in ("fields", "num_workers", "colour"):
    try:
        PackedDataset(sys.argv[1], **{name: 1})
    except UsageError as error:
        print(error)
"""


def test_without_torch_as_well(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_TORCH, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    assert lines[1] == (
        "PackedDataset has no argument num_workers (DataLoader(dataset, num_workers=…) takes it)"
    )
    assert [line.split(" (")[0].split()[-1] for line in lines] == [
        "fields",
        "num_workers",
        "colour",
    ]
