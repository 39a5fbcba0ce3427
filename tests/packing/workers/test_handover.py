import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packer.packing.workers import handover
from packer.packing.workers.handover import Handed, Places, make_places
from packer.types import Sample

FORKED = """
import os, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # with numpy's threads beside it nothing is forked
from packer.packing.workers.handover import PLACE_BYTES
from packer.packing.workers.pool import Pool
from packer.types import Sample

def make(number):
    if number == 37 and not os.path.exists(sys.argv[1]):
        open(sys.argv[1], "w").close()
        os._exit(1)
    size = PLACE_BYTES + 1 if number == 5 else number * 10_000
    return [Sample(number, b"p", 0, 1, 1, {"image": bytes([number]) * size, "more": b""})]

with Pool(make, "loky", 2, str) as pool:
    for number, [sample] in enumerate(pool.run(range(40))):
        image = sample.payloads["image"]
        assert bytes(image[:1]) in (b"", bytes([number])), number
        assert bytes(image) == bytes([number]) * len(image), number
        assert len(image) == (PLACE_BYTES + 1 if number == 5 else number * 10_000), number
        print(type(image).__name__, end=" ")
"""


def _sample(*payloads: bytes) -> Sample:
    return Sample(1, b"a", 2, 3, 4, {str(n): data for n, data in enumerate(payloads)})


@given(st.lists(st.binary(max_size=3000), max_size=5), st.integers(0, 2))
def test_payloads_arrive_through_the_memory(payloads: list[bytes], place: int) -> None:
    places = Places(3)
    handed = places.hand_over(_sample(*payloads), place)
    assert handed.place == place
    found = places.receive(pickle.loads(pickle.dumps(handed)))
    assert found == _sample(*payloads)
    if any(payloads):
        assert len(handed.pickled) < 200 + 40 * len(payloads)
        assert all(view.readonly for view in found.payloads.values())


@pytest.mark.parametrize("place", [None, 0])
def test_what_does_not_fit_is_pickled(place: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "PLACE_BYTES", 4096)
    places = Places(1)
    for size in (4097, 4096):
        handed = places.hand_over(_sample(b"x" * size), place)
        assert (len(handed.pickled) > size) == (place is None or size > 4096)
        assert places.receive(handed) == _sample(b"x" * size)


def test_places_are_lent_once() -> None:
    places = Places(2)
    assert {places.take(), places.take()} == {0, 1}
    assert places.take() is None
    places.give_back(1)
    places.give_back(None)
    assert places.take() == 1


def test_without_address_space_there_is_no_memory() -> None:
    assert make_places(1 << 30) is None


def test_a_result_without_payloads_uses_no_memory() -> None:
    places = Places(1)
    assert places.hand_over([1, 2], 0) == Handed(pickle.dumps([1, 2], 5), 0)


def test_forked_workers_hand_over_what_they_made(tmp_path: Path) -> None:
    """In order, whatever its size, and also after a worker died."""
    command = [sys.executable, "-c", FORKED, str(tmp_path / "died")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    types = run.stdout.split()
    assert (tmp_path / "died").exists()
    # Number 0 is empty, number 5 is too large; from number 31 on results were lost with the worker.
    assert types[:31] == ["bytes", *["memoryview"] * 4, "bytes", *["memoryview"] * 25]
