"""Makes again what a complete pack has lost: shards, indexes, and what lies beside them.

The manifest stays unchanged and lists each file: a file that is made again gets its name only if
it has the same bytes. Files of the wrong size are moved aside, never removed or written over. A run
that is killed leaves a pack of which the same command makes the rest.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from packer.errors import DamageError, MissingShards, UsageError
from packer.files.fsio import make_folder, output_errors, publish_bytes, sha256_file
from packer.files.regular import JSON_BYTES, read_regular
from packer.pack.columns import cut_shard, encode_shard_index, index_name
from packer.pack.index import IndexFile
from packer.pack.index_form import open_shard_index, open_split_index
from packer.pack.manifest import LEDGER_NAME, Manifest
from packer.pack.presence import differing_sizes
from packer.packing.completion import as_draft, write_beside
from packer.packing.finish import encode_ledger, tidy_complete
from packer.packing.lock import Lock
from packer.packing.planning.job import Job
from packer.packing.planning.plan import ShardPlan
from packer.packing.shards.batch import describe_batch, make_batch
from packer.packing.shards.shard import WORK_FOLDER, remove_own_temps
from packer.packing.shards.state import ShardState, describe_difference
from packer.packing.tally import Tally
from packer.packing.workers.pool import Pool
from packer.reporting import Reporter

#: Files that a message names.
_SHOWN = 5

#: Makes shards in a folder and publishes them: (stem, state) of each.
MakeShards = Callable[
    [Path, Job, Sequence[ShardPlan], Tally, Lock], Generator[tuple[str, ShardState], None, None]
]


@dataclass(frozen=True)
class Restored:
    """The result of restoring a pack.

    Attributes:
        names: Names of the files that were made again.
        missing: Number of shards that other parts still have to make.
    """

    names: tuple[str, ...] = ()
    missing: int = 0


def find_losses(out: Path, manifest: Manifest) -> dict[str, str]:
    """Files of a complete pack that are missing or have another size: the fault by name.

    Raises:
        OutputError: The folder cannot be listed.
    """
    sizes = {name: record.size for name, record in manifest.all_files().items()}
    with output_errors(out):
        return differing_sizes(out, sizes)


def describe_losses(losses: Mapping[str, str]) -> str:
    """One line: "train-000001.tar is missing, and 3 more"."""
    shown = [f"{name} is {what}" for name, what in [*losses.items()][:_SHOWN]]
    more = f", and {len(losses) - _SHOWN} more" if len(losses) > _SHOWN else ""
    return ", ".join(shown) + more


def restore_pack(
    out: Path, manifest: Manifest, job: Job, make: MakeShards, reporter: Reporter
) -> Restored:
    """Make missing files, and files of another size, again; with `job.options.part`, only the
    shards of that part.

    Raises:
        UsageError: A file that was made again differs from the manifest's; the message says why.
        OutputError: The file system refused.
        InUse: Another run is at work there.
    """
    job = _as_before(job, manifest)
    part = None if job.options.part is None else job.options.part[0]
    make_folder(out / WORK_FOLDER)
    with Lock(out / WORK_FOLDER, part, note=reporter.note) as lock:
        losses = find_losses(out, manifest)
        try:
            todo = _lost_shards(job, manifest, losses)
            _announce(losses, manifest, job, reporter)
            names = [job.agreement.shard_name(shard) for shard in todo]
            move_aside(out, losses.keys() & {*names, *map(index_name, names)}, reporter)
            slots = sum(shard.slots for shard in todo)
            tally = Tally(
                job.planned, job.planned, reporter, slots
            )  # the manifest allows their skips
            with closing(make(out, job, todo, tally, lock)) as made:
                for _ in made:
                    pass
            lock.confirm()
            missing = _missing_shards(manifest, find_losses(out, manifest))
            if not missing:
                _restore_beside(out, manifest, lambda: _ledger(out, manifest, job), reporter)
            left = find_losses(out, manifest)
        finally:
            remove_own_temps(out)
    if not missing:
        tidy_complete(out)
    return Restored(tuple(name for name in losses if name not in left), len(missing))


def restore_beside(out: Path, manifest: Manifest, reporter: Reporter) -> Restored:
    """Make files again that follow from the shards, which must all exist; needs no source.

    Raises:
        MissingShards: Shards are missing, or the ledger is, which comes from the source.
        UsageError: A file that was made again differs from the manifest's.
        OutputError: The file system refused.
        InUse: Another run is at work there.
    """
    losses = find_losses(out, manifest)
    missing = _missing_shards(manifest, losses)
    if not missing and LEDGER_NAME in losses and manifest.counts["skipped"]:
        missing[LEDGER_NAME] = losses[LEDGER_NAME]
    if missing:
        raise MissingShards(
            f"{out}: {describe_losses(missing)}", "run the same packer convert again", [*missing]
        )

    make_folder(out / WORK_FOLDER)
    with Lock(out / WORK_FOLDER, None, note=reporter.note):
        losses = find_losses(out, manifest)
        try:
            reporter.warn(f"{out}: {describe_losses(losses)}: made again")
            _restore_beside(out, manifest, lambda: b"", reporter)
        finally:
            remove_own_temps(out)
    tidy_complete(out)
    return Restored(tuple(losses))


def _as_before(job: Job, manifest: Manifest) -> Job:
    """The job whose shards must be those of the manifest."""
    difference = describe_difference(dict(manifest.libraries), dict(job.agreement.pack.libraries))
    return dataclasses.replace(
        job,
        # Pictures that could not be stored are in the ledger, whatever `on_error` is now.
        options=dataclasses.replace(job.options, on_error="skip"),
        expected={s.name: s for split in manifest.splits.values() for s in split.shards},
        suspect=f"libraries: {difference}" if difference else "a picture of the source changed",
    )


def _lost_shards(job: Job, manifest: Manifest, losses: Mapping[str, str]) -> list[ShardPlan]:
    """Shards that this run must make again, also those of which only the index is lost and the
    split's index does not contain it either.
    """
    return [
        shard
        for shard in job.own_shards()
        if job.agreement.shard_name(shard) in losses
        or (
            manifest.splits[shard.split].index in losses
            and index_name(job.agreement.shard_name(shard)) in losses
        )
    ]


def _missing_shards(manifest: Manifest, losses: Mapping[str, str]) -> dict[str, str]:
    """Shards that are lost, and those whose index has no other source."""
    lost = {}
    for split in manifest.splits.values():
        for shard in split.shards:
            index = index_name(shard.name)
            if shard.name in losses:
                lost[shard.name] = losses[shard.name]
            elif index in losses and split.index in losses:
                lost[index] = losses[index]
    return lost


def _announce(losses: Mapping[str, str], manifest: Manifest, job: Job, reporter: Reporter) -> None:
    if losses:
        reporter.warn(f"the pack is not whole: {describe_losses(losses)}; made again")
    difference = describe_difference(dict(manifest.libraries), dict(job.agreement.pack.libraries))
    if difference:
        reporter.warn(f"the pack was made with {difference}; what differs then is refused")


def move_aside(out: Path, names: set[str], reporter: Reporter) -> None:
    """Rename files that differ from the manifest. Processes that have one open keep it.

    Raises:
        OutputError: The file system refused.
    """
    for name in sorted(names):
        path = out / name
        if os.path.lexists(path):
            aside = path.with_name(f"{name}.old-{uuid.uuid4()}")
            with output_errors(path):
                path.rename(aside)
            reporter.note(f"moved {name} to {aside.name}, which you may remove")


def _restore_beside(
    out: Path, manifest: Manifest, ledger: Callable[[], bytes], reporter: Reporter
) -> None:
    """Write everything but the shards, each file only if it is lost."""
    losses = find_losses(out, manifest)
    files = manifest.all_files()

    def write(name: str, data: bytes) -> None:
        if name not in losses:
            return
        if hashlib.sha256(data).hexdigest() != files[name].sha256:
            raise UsageError(
                f"{out / name}: made again, it is not the file that the manifest lists",
                f"`packer verify {out}` tells whether another file is damaged; else copy it again",
            )
        publish_bytes(out / WORK_FOLDER, out / name, data)

    if not losses:
        return
    content = ledger() if LEDGER_NAME in losses else _read_ledger(out)
    move_aside(out, {*losses}, reporter)
    for name, split in manifest.splits.items():
        for number, shard in enumerate(split.shards):
            if index_name(shard.name) in losses:
                index = _whole_index(out, manifest, name)
                columns = cut_shard(index, number, manifest.fields)
                write(index_name(shard.name), encode_shard_index(columns, shard))
    write_beside(out, as_draft(manifest), content, write)


def _read_ledger(out: Path) -> bytes:
    with output_errors(out / LEDGER_NAME):
        return read_regular(out / LEDGER_NAME, JSON_BYTES, follow=True)


def _whole_index(out: Path, manifest: Manifest, split: str) -> IndexFile:
    """Open a split's index after checking it against the manifest."""
    path = out / manifest.splits[split].index
    with output_errors(path):
        digest = sha256_file(path)
    if digest != manifest.splits[split].index_sha256:
        raise DamageError(f"{path}: its SHA-256 differs", manifest.repair)
    return open_split_index(out, manifest, split)


def _ledger(out: Path, manifest: Manifest, job: Job) -> bytes:
    """Make the ledger again: convert the slots that are in no shard."""
    if not manifest.counts["skipped"]:
        return b""
    packed: set[int] = set()
    fields, classes = manifest.fields, len(manifest.classes)
    for name, split in manifest.splits.items():
        for number, shard in enumerate(split.shards):
            if (out / index_name(shard.name)).exists():
                column = open_shard_index(out, shard, fields, classes)["slot"]
            else:
                column = cut_shard(open_split_index(out, manifest, name), number, fields)["slot"]
            packed.update(column.tolist())
    tasks = [
        dataclasses.replace(task, slots=slots)
        for shard in job.plan.shards()
        for task in job.tasks(shard)
        if (slots := tuple(slot for slot in task.slots if slot.number not in packed))
    ]
    skips = []
    backend = "loky" if job.options.backend == "dask" else job.options.backend
    with Pool(make_batch, backend, job.options.jobs, describe_batch) as pool:
        for result in pool.run(tasks):
            skips += result.skips
    return encode_ledger(skips)
