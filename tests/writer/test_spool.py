from __future__ import annotations

from pathlib import Path

import pytest

from packer.errors import OutputError
from packer.types import Sample
from packer.writer.spool import Spool


def samples(count: int) -> list[Sample]:
    return [
        Sample(
            number,
            b"%d\xff.jpg" % number,
            number % 3 - 1,
            number + 1,
            7,
            {"image": bytes([number]) * number, "note": b"\n{" * number},
            notes=number % 5,
        )
        for number in range(count)
    ]


def test_gives_all_back_in_an_order_of_seed_and_paths(tmp_path: Path) -> None:
    given = samples(60)
    orders = []
    for seed, some in ((0, given), (0, given[::-1]), (1, given)):
        spool = Spool(tmp_path, seed)
        for sample in some:
            spool.add(sample)
        found = list(spool.shuffled(first=5))
        assert [sample.slot for sample in found] == list(range(5, 65))
        assert sorted(
            (s.path, s.label, s.width, s.height, s.notes, dict(s.payloads)) for s in found
        ) == sorted((s.path, s.label, s.width, s.height, s.notes, dict(s.payloads)) for s in given)
        orders.append([sample.path for sample in found])
        spool.remove()
    assert orders[0] == orders[1] != orders[2]
    assert orders[0] != [sample.path for sample in given]
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 0)
    full = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115 - the spool closes it
    spool._file.close()
    spool._file = full  # type: ignore[assignment]
    with pytest.raises(OutputError, match=r"spool.*No space"):
        spool.add(samples(3)[2])
    spool.remove()
