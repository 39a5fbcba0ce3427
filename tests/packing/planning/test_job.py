import dataclasses
import os
from pathlib import Path

import pytest

from packer.errors import ConfigError, SourceError, UsageError
from packer.input import open_input
from packer.packing.planning.job import Job, make_job, output_folder
from packer.reporting import Reporter
from packer.settings.options import ConvertOptions
from tests.fixtures import MakeTree


class _Ears(Reporter):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def _job(tree: Path, **options: object) -> Job:
    given = open_input(tree)
    return make_job(given, ConvertOptions(**options), Reporter())  # type: ignore[arg-type]


def test_tasks_cover_the_plan_in_order(make_tree: MakeTree) -> None:
    job = _job(make_tree(), batch_size=5, split="train=0.5,val=0.5")
    slots = [
        slot for shard in job.plan.shards() for task in job.tasks(shard) for slot in task.slots
    ]
    assert [slot.number for slot in slots] == list(range(24))
    assert sorted(slot.path for slot in slots) == job.listing.paths
    for slot in slots:
        assert job.labelling.classes[slot.label].encode() == slot.path.split(b"/")[0]


@pytest.mark.parametrize(("planned", "limit"), [(24, 10), (1999, 19), (30607, 306)])
def test_the_default_limit_of_skips(make_tree: MakeTree, planned: int, limit: int) -> None:
    job = _job(make_tree())
    agreement = dataclasses.replace(job.agreement, splits={"train": (0, planned)})
    job = dataclasses.replace(job, agreement=agreement)
    assert job.max_skipped == limit


def test_parts_are_the_shards_of_their_number(make_tree: MakeTree) -> None:
    tree = make_tree()
    small = {"batch_size": 2, "shard_size": 1}
    names = [shard.stem for shard in _job(tree, **small).own_shards()]
    parts = [_job(tree, part=(k, 3), **small).own_shards() for k in range(3)]
    assert [shard.stem for shard in parts[1]] == names[1::3]
    assert sorted(shard.stem for part in parts for shard in part) == names


def test_stamps_change_with_the_files_of_their_shard(make_tree: MakeTree) -> None:
    tree = make_tree()
    before = _job(tree, batch_size=4, shard_size=1)
    first, *others = before.plan.shards()
    path = before.listing.paths[int(before.plan.candidate[0])]
    (tree / path.decode()).touch()
    after = _job(tree, batch_size=4, shard_size=1)
    assert after.stamps(first) != before.stamps(first)
    assert after.changed(first, before.stamps(first)) == [path]
    assert [after.stamps(s) for s in others] == [before.stamps(s) for s in others]
    assert not any(after.changed(s, before.stamps(s)) for s in others)


def test_a_file_that_was_replaced_by_one_of_its_size_and_time_is_found(
    make_tree: MakeTree,
) -> None:
    tree = make_tree()
    before = _job(tree, batch_size=4, shard_size=1)
    first = next(before.plan.shards())
    path = before.listing.paths[int(before.plan.candidate[2])]
    old = tree / path.decode()
    new = old.with_suffix(".new")
    new.write_bytes(bytes(old.stat().st_size))
    os.utime(new, ns=(old.stat().st_mtime_ns,) * 2)
    new.replace(old)
    assert _job(tree, batch_size=4, shard_size=1).changed(first, before.stamps(first)) == [path]


def test_the_agreement_tells_what_decides_bytes(make_tree: MakeTree) -> None:
    tree = make_tree()
    same = _job(tree, jobs=3, max_skipped=5, on_error="fail").agreement
    assert same == _job(tree).agreement
    assert _job(tree, quality=50).agreement != same
    assert _job(tree, seed=1).agreement != same


def test_warnings_reach_the_reporter(make_tree: MakeTree) -> None:
    ears = _Ears()
    tree = make_tree("256_ObjectCategories", classes=2, each=2)
    make_job(open_input("caltech256", src=tree), ConvertOptions(), ears)
    assert any("30603 fewer than the expected 30607" in line for line in ears.warnings)


def test_recipes_split_is_resolved_into_the_options(make_tree: MakeTree) -> None:
    tree = make_tree("256_ObjectCategories", classes=2, each=30)
    given = open_input("caltech256", src=tree)
    job = make_job(given, ConvertOptions(), Reporter())
    assert job.options.split == "train=0.8,val=0.2"
    assert list(job.plan.splits) == ["train", "val"]
    whole = make_job(given, ConvertOptions(split="none"), Reporter())
    assert list(whole.plan.splits) == ["train"]


def test_everything_left_out_is_an_error(make_tree: MakeTree) -> None:
    tree = make_tree(classes=1)
    with pytest.raises(SourceError, match="every picture is left out"):
        _job(tree, exclude_classes=("001.class0",))
    with pytest.raises(ConfigError, match="no class folder"):
        _job(tree, exclude_classes=("002.class1",))


def test_default_folders(tmp_path: Path) -> None:
    names = {
        "a-256-jpeg-tar": ConvertOptions(resize="256"),
        "a-full-png-lmdb": ConvertOptions(codec="png", format="lmdb"),
        "a-64x32-crop-raw-hdf5": ConvertOptions(
            resize="64x32", resize_mode="crop", codec="raw", format="hdf5"
        ),
    }
    for name, options in names.items():
        assert output_folder("a", options, tmp_path) == tmp_path / name


def test_a_default_folder_is_never_hidden(tmp_path: Path) -> None:
    options = ConvertOptions()
    assert output_folder(".data", options, tmp_path) == tmp_path / "data-full-jpeg-tar"
    for name in ("", ".."):
        with pytest.raises(UsageError, match=r"no name that the pack could have.*-o FOLDER"):
            output_folder(name, options, tmp_path)


def test_links_that_may_be_lost_folders_are_told_of(make_tree: MakeTree) -> None:
    tree = make_tree(classes=1)
    (tree / "002.class1").symlink_to("/nowhere/002.class1")
    ears = _Ears()
    make_job(open_input(tree), ConvertOptions(), ears)
    assert ears.warnings == ["1 link leads nowhere, in place of folders perhaps: 002.class1"]


def test_missing_files_are_skips_before_anything_is_read(make_tree: MakeTree) -> None:
    tree = make_tree(classes=2, each=3)
    (tree / "001.class0" / "gone.jpg").symlink_to("nowhere.jpg")
    job = _job(tree, exclude_classes=("002.class1",))
    [skip] = job.missing()
    assert (skip.path, skip.reason) == (b"001.class0/gone.jpg", "missing")
    slots = [s for shard in job.plan.shards() for task in job.tasks(shard) for s in task.slots]
    assert [slot.number for slot in slots if slot.missing] == [skip.slot]
    assert _job(tree, exclude_classes=("001.class0",)).missing() == []
