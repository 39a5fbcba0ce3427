"""The state of a stream: how far training has come, so that it can go on from there.

A state is a small dict of numbers and strings, fit for JSON. It says which sequence it belongs to
(pack, seed, shuffle, window, tail), the epoch, and the position in the epoch's global sequence of
the first sample that training has not got. Positions do not depend on ranks, workers or mini-batch
sizes, so others of these can go on from it.

What one DataLoader worker saves (inside of torchdata's StatefulDataLoader) is in addition a share:
its own next mini-batch. A worker goes on from that alone; all workers' shares together make a state
for any other number of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from packer.errors import UsageError

VERSION = 1
_KIND = "packer.reader"
#: What torchdata adds to its workers' states: mini-batches delivered since they were taken.
_SINCE = "_steps_since_snapshot"


@dataclass(frozen=True)
class OrderIdentity:
    """What the global sequences of all epochs follow from.

    Attributes:
        pack: Identity of the samples: `packer.pack.opened.Pack.identity`.
        samples: How many.
        seed: As asked.
        shuffle: As asked.
        window: As the bytes allow.
        tail: As asked.
    """

    pack: str
    samples: int
    seed: int
    shuffle: str
    window: int
    tail: str


@dataclass(frozen=True)
class Place:
    """A place in training.

    Attributes:
        epoch: Its number.
        position: In the epoch's global sequence: what lies before it was delivered.
    """

    epoch: int
    position: int


@dataclass(frozen=True)
class Share:
    """One worker's part of a walk through an epoch.

    Attributes:
        worker: Its number.
        workers: How many there are.
        stride: Samples of a global mini-batch.
        step: Its next mini-batch, counted from the place where the walk began.
    """

    worker: int
    workers: int
    stride: int
    step: int


def make_state(sequence: OrderIdentity, place: Place, share: Share | None = None) -> dict[str, Any]:
    """The state of a stream or, with a share, of one worker of a walk that began at `place`."""
    state = {"kind": _KIND, "version": VERSION, **asdict(sequence), **asdict(place)}
    return state if share is None else {**state, "share": asdict(share)}


def parse_state(state: Mapping[str, Any], sequence: OrderIdentity) -> Place:
    """The place that a state describes.

    Args:
        state: A stream's, or that of a StatefulDataLoader over one, with any number of workers.
        sequence: What it must belong to.

    Raises:
        UsageError: No such state, or of another sequence.
    """
    parts = list(_parts(state))
    if not parts:
        raise UsageError("this is no state of a stream", "give what state_dict() returned")
    places = {_checked(part, sequence) for part in parts}
    shares = [Share(**part["share"]) for part in parts if "share" in part]
    if not shares and len(places) == 1:
        return places.pop()
    if (
        len(places) > 1
        or len({(share.workers, share.stride) for share in shares}) > 1
        or sorted(share.worker for share in shares) != list(range(shares[0].workers))
    ):
        raise UsageError(
            "this state is not that of all workers of one loader",
            "give the loader's whole state_dict(), or that of a stream",
        )
    # They deliver in turn, so the one that came furthest has delivered last.
    steps = max(max(0, share.step - share.workers + 1) for share in shares)
    steps += int(state.get(_SINCE, 0))
    place = places.pop()
    return Place(place.epoch, min(place.position + steps * shares[0].stride, sequence.samples))


def parse_share(
    state: Mapping[str, Any], sequence: OrderIdentity, worker: int, workers: int, stride: int
) -> tuple[Place, int]:
    """Where one worker goes on: where its walk began, and its next step from there.

    Raises:
        UsageError: No such state, of another sequence, or of a worker of another loader.
    """
    if "share" not in state:
        return parse_state(state, sequence), worker
    place = _checked(state, sequence)
    share = Share(**state["share"])
    if (share.worker, share.workers, share.stride) != (worker, workers, stride):
        raise UsageError(
            f"this state is of worker {share.worker} of {share.workers} and global mini-batches of "
            f"{share.stride} samples, not of worker {worker} of {workers} and {stride}",
            "with other numbers, give the old loader's state to stream.load_state_dict(), and none "
            "to the new loader",
        )
    return place, share.step


def _parts(state: object) -> Iterator[Mapping[str, Any]]:
    """The states of streams in a state that may be a loader's: dicts within dicts."""
    if not isinstance(state, Mapping):
        return
    if state.get("kind") == _KIND:
        yield state
        return
    for value in state.values():
        yield from _parts(value)


def _checked(state: Mapping[str, Any], sequence: OrderIdentity) -> Place:
    if state.get("version") != VERSION:
        raise UsageError(
            f"this state has version {state.get('version')!r}, this packer writes {VERSION}",
            "go on with the packer that wrote it",
        )
    wrong = [
        f"{name} {state.get(name)!r} (here {value!r})"
        for name, value in asdict(sequence).items()
        if state.get(name) != value
    ]
    if wrong:
        raise UsageError(
            "this state is of another sequence: " + ", ".join(wrong),
            "go on with the arguments that it was saved with; batch_size, ranks and workers may "
            "differ",
        )
    return Place(int(state["epoch"]), int(state["position"]))
