import json
from pathlib import Path

import pytest

from packer.errors import OutputError
from packer.pack.index import IndexFile
from packer.pack.manifest import Manifest, SplitRecord, read_manifest
from packer.packing.completion import as_draft
from packer.packing.finish import count, finish_pack
from packer.packing.planning.agreement import image_fields
from packer.packing.shards.shard import WORK_FOLDER, ShardBuilder
from packer.types import Sample, Skip

FIELDS = image_fields("jpeg")


def _finish(out: Path, skips: list[Skip]) -> Manifest:
    (out / WORK_FOLDER).mkdir(parents=True)
    records = []
    for number in range(2):
        builder = ShardBuilder(out, f"train-{number:06d}.tar", "tar", FIELDS, one_size=False)
        builder.add_batch(
            [Sample(number, b"%d.jpg" % number, 0, 1, 1, {"image": b"x" * (number + 1)})]
        )
        records.append(builder.finish())
        builder.publish()
    splits = {
        "train": SplitRecord.of_shards("train", records),
        "val": SplitRecord.of_shards("val", []),
    }
    counts = count(2 + len(skips), skips, notes={"gray": 1})
    manifest = Manifest("x", "tar", 128, FIELDS, ("a",), ("a",), splits, counts)
    return finish_pack(out, manifest, skips)


def test_a_finished_pack(tmp_path: Path) -> None:
    skips = [Skip(9, b"b.jpg", "truncated", ""), Skip(3, b"a.jpg", "empty", "")]
    manifest = _finish(tmp_path / "pack", skips)
    out = tmp_path / "pack"
    assert not (out / WORK_FOLDER).exists()
    assert read_manifest(out) == manifest
    assert manifest.counts == {"planned": 4, "packed": 2, "skipped": 2, "notes": {"gray": 1}}
    ledger = [json.loads(line) for line in (out / "skipped.jsonl").read_text().splitlines()]
    assert [line["slot"] for line in ledger] == [3, 9]
    index = IndexFile(out / "train.index")
    assert index["slot"].tolist() == [0, 1]
    assert index["batch_shard"].tolist() == [0, 1]
    assert len(IndexFile(out / "val.index")["slot"]) == 0
    assert manifest.splits["val"].shards == ()


def test_finishing_again_after_a_crash_before_the_manifest(tmp_path: Path) -> None:
    manifest = _finish(tmp_path / "pack", [])
    out = tmp_path / "pack"
    (out / "manifest.json").unlink()
    (out / WORK_FOLDER).mkdir()
    finish_pack(out, as_draft(manifest), [])
    assert read_manifest(out) == manifest


def test_another_file_under_a_final_name_is_not_overwritten(tmp_path: Path) -> None:
    manifest = _finish(tmp_path / "pack", [])
    out = tmp_path / "pack"
    (out / "manifest.json").write_text("mine")
    (out / WORK_FOLDER).mkdir()
    with pytest.raises(OutputError, match=r"manifest.json: already there with other content"):
        finish_pack(out, as_draft(manifest), [])
    assert (out / "manifest.json").read_text() == "mine"
