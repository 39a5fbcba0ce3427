from __future__ import annotations

import multiprocessing
from typing import Any

import numpy as np
import pytest

from packer.reader.order import loops
from packer.reader.order.statedict import Place


def notes_of(*left: tuple[int, int, int, int]) -> Any:
    notes = np.zeros(loops.NOTES, loops.NOTE)
    for number, values in enumerate(left):
        notes[number] = values
    return notes


def test_a_note_serves_the_other_workers() -> None:
    notes = notes_of()
    assert loops.find(notes, 5) is None
    loops.add(notes, 5, Place(3, 40), 2)
    loops.add(notes, 7, Place(4, 0), 1)
    assert [loops.find(notes, 5) for _ in range(3)] == [Place(3, 40), Place(3, 40), None]
    assert [loops.find(notes, 7) for _ in range(2)] == [Place(4, 0), None]


def test_old_notes_give_way() -> None:
    notes = notes_of()
    for loop in range(1, loops.NOTES + 3):
        loops.add(notes, loop, Place(loop, 0), 1)
    assert loops.find(notes, 2) is None
    assert loops.find(notes, 3) == Place(3, 0)
    assert loops.find(notes, loops.NOTES + 2) == Place(loops.NOTES + 2, 0)


def numbers(results: Any, work: Any, done: Any) -> None:
    results.put([loops.loop_of_worker(0, walk) for walk in (1, 2)])
    done.wait(60)


class Worker(multiprocessing.get_context("fork").Process):  # type: ignore[misc]
    """A process with DataLoader's arguments for its workers, as far as they count."""

    def run(self) -> None:
        _, work, results, done = self._args
        numbers(results, work, done)


@pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning")
def test_workers_of_one_loop_have_a_number_in_common() -> None:
    """With equal seeds, too."""
    context = multiprocessing.get_context("fork")
    found = []
    for _ in range(2):
        results, done = context.Queue(), context.Event()
        workers = [Worker(args=(None, context.Queue(), results, done)) for _ in range(2)]
        for worker in workers:
            worker.start()
        found.append([results.get(timeout=60) for _ in workers])
        done.set()
        for worker in workers:
            worker.join()
    assert found[0][0] == found[0][1]
    assert found[1][0] == found[1][1]
    assert len({*found[0][0], *found[1][0]}) == 4
    assert loops.loop_of_worker(1, 1) != loops.loop_of_worker(2, 1) != 0
