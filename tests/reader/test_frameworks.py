"""Frameworks themselves, on two processes of this machine, where they are installed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.packs import BuildPack

#: Seconds in which a job is through or, if ranks wait for one another, hangs.
LIMIT = 200

ACCELERATE = """
import json, sys
from accelerate import Accelerator
from torch.utils.data import DataLoader
from packer.reader import BatchStream, PackedDataset, WindowSampler

accelerator = Accelerator(cpu=True)
dataset = PackedDataset(sys.argv[1], decode="numpy")
source = BatchStream(dataset, 4) if sys.argv[2] == "stream" else WindowSampler(dataset, 4)
loader = (
    DataLoader(source, batch_size=None)
    if sys.argv[2] == "stream"
    else DataLoader(dataset, batch_sampler=source)
)
prepared = accelerator.prepare(loader)
epochs = []
for epoch in range(3):
    epochs.append([])
    for images, _ in prepared:
        planes = images if images.shape[1] == 3 else images.permute(0, 3, 1, 2)
        epochs[-1] += [planes[number].flatten().tolist() for number in range(len(planes))]
        if epoch == 0 and len(epochs[0]) == 8:
            break  # accelerate does not count this loop
with open(f"{sys.argv[3]}-{accelerator.process_index}", "w") as file:
    json.dump([epochs, len(prepared), source.epoch], file)
accelerator.end_training()
"""

LIGHTNING = """
import json, sys
import lightning
import torch
from torch.utils.data import DataLoader
from packer.reader import BatchStream, Loader, PackedDataset, WindowSampler

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.parameter = torch.nn.Parameter(torch.zeros(()))
        self.epochs = {}

    def train_dataloader(self):
        dataset = PackedDataset(sys.argv[1], decode="numpy")
        if sys.argv[2] == "stream":
            return DataLoader(BatchStream(dataset, 4), batch_size=None)
        if sys.argv[2] == "sampler":
            return DataLoader(dataset, batch_sampler=WindowSampler(dataset, 4, tail="keep"))
        return Loader(dataset, batch_size=4, threads=1)

    def training_step(self, batch, number):
        planes = batch[0] if batch[0].shape[1] == 3 else batch[0].permute(0, 3, 1, 2)
        found = self.epochs.setdefault(self.current_epoch, [])
        found += [plane.flatten().tolist() for plane in planes]
        return self.parameter * 0

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

if __name__ == "__main__":
    module = Module()
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=3, logger=False,
        enable_checkpointing=False, enable_progress_bar=False,
    )
    trainer.fit(module)
    epochs = [module.epochs[number] for number in range(3)]
    with open(f"{sys.argv[3]}-{trainer.global_rank}", "w") as file:
        json.dump([epochs, trainer.num_training_batches, 3], file)
"""


def run(folder: Path, text: str, root: Path, kind: str, *launcher: str) -> list[Any]:
    """What each of two ranks wrote: samples of each epoch, length, the next epoch."""
    script = folder / "train.py"
    script.write_text(text)
    done = subprocess.run(
        [sys.executable, *launcher, script, root, kind, folder / "seen"],
        check=False,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"seen-{rank}").read_text()) for rank in range(2)]


def assert_epochs(found: list[Any], pixels: list[Any], epochs: tuple[int, ...]) -> None:
    """Each sample was in one rank's mini-batches, with its own pixels, in another order."""
    pictures = [picture.transpose(2, 0, 1).flatten().tolist() for picture in pixels]
    orders = []
    for epoch in epochs:
        seen = [sample for rank in found for sample in rank[0][epoch]]
        assert sorted(seen) == sorted(pictures)
        orders.append(str(seen))
    assert len(set(orders)) == len(epochs)
    assert [rank[1:] for rank in found] == [[2, 3], [2, 3]]


@pytest.mark.parametrize("kind", ["stream", "sampler"])
def test_accelerate(build_pack: BuildPack, tmp_path: Path, kind: str) -> None:
    if importlib.util.find_spec("accelerate") is None:
        pytest.skip("needs accelerate")
    built = build_pack([[4, 4], [8]], sizes=[(6, 5)])
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    found = run(tmp_path, ACCELERATE, built.root, kind, *launcher)
    assert_epochs(found, built.pixels, (1, 2))


@pytest.mark.parametrize("kind", ["stream", "sampler", "loader"])
def test_lightning(build_pack: BuildPack, tmp_path: Path, kind: str) -> None:
    if importlib.util.find_spec("lightning") is None:
        pytest.skip("needs lightning")
    built = build_pack([[4, 4], [8]], sizes=[(6, 5)])
    assert_epochs(run(tmp_path, LIGHTNING, built.root, kind), built.pixels, (0, 1, 2))
