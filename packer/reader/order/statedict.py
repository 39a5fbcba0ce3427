"""The state of a stream: how far training has come, so that it can be resumed.

A state is a small dict of numbers and strings, which can be stored as JSON. It contains the
identity of the order (pack, seed, shuffle, window, tail), the epoch, and a position in the epoch's
global sequence: that of the first sample that training has not got. Positions do not depend on
ranks, workers or mini-batch sizes, so these can differ when training is resumed.

The state that one DataLoader worker saves (inside of torchdata's StatefulDataLoader) also contains
a share: the worker's own next mini-batch. A worker resumes from its share alone; all workers'
shares together make a state for any other number of workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from packer.errors import UsageError

VERSION = 1
_KIND = "packer.reader"
#: Key that torchdata adds to its workers' states: mini-batches delivered since the state was taken.
_SINCE = "_steps_since_snapshot"


@dataclass(frozen=True)
class OrderIdentity:
    """The values that determine the global sequences of all epochs.

    Attributes:
        pack: Identity of the samples: `packer.pack.opened.Pack.identity`.
        samples: Number of samples.
        seed: See `OrderOptions`, as for the others.
        shuffle: As in the options.
        window: As `fitting_window` has reduced it.
        tail: As in the options.
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
        epoch: Number of the epoch.
        position: Position in the epoch's global sequence: the samples before it were delivered.
    """

    epoch: int
    position: int


@dataclass(frozen=True)
class Share:
    """One worker's part of a walk through an epoch.

    Attributes:
        worker: Number of the worker.
        workers: Number of workers.
        stride: Number of samples of a global mini-batch.
        step: The worker's next mini-batch, counted from the place where the walk began.
    """

    worker: int
    workers: int
    stride: int
    step: int


def make_state(identity: OrderIdentity, place: Place, share: Share | None = None) -> dict[str, Any]:
    """Make the state of a stream or, with a share, of one worker whose walk began at `place`."""
    state = {"kind": _KIND, "version": VERSION, **asdict(identity), **asdict(place)}
    return state if share is None else {**state, "share": asdict(share)}


def parse_state(state: Mapping[str, Any], identity: OrderIdentity) -> Place:
    """Return the place that a state describes.

    Args:
        state: State of a stream, or of a StatefulDataLoader over one, with any number of workers.
        identity: The order that it must belong to.

    Raises:
        UsageError: The state is invalid, or belongs to another order.
    """
    parts = list(_parts(state))
    if not parts:
        raise UsageError("this is not the state of a stream", "give what state_dict() returned")
    places = {_checked(part, identity) for part in parts}
    shares = [Share(**part["share"]) for part in parts if "share" in part]
    if not shares and len(places) == 1:
        return places.pop()
    if (
        len(places) > 1
        or len({(share.workers, share.stride) for share in shares}) > 1
        or sorted(share.worker for share in shares) != list(range(shares[0].workers))
    ):
        raise UsageError(
            "this is not the state of all workers of one loader",
            "give the loader's whole state_dict(), or a stream's",
        )
    # The workers deliver in turn, so the one that is furthest has delivered last.
    steps = max(max(0, share.step - share.workers + 1) for share in shares)
    steps += int(state.get(_SINCE, 0))
    place = places.pop()
    return Place(place.epoch, min(place.position + steps * shares[0].stride, identity.samples))


def parse_share(
    state: Mapping[str, Any], identity: OrderIdentity, worker: int, workers: int, stride: int
) -> tuple[Place, int]:
    """Return where one worker resumes: where its walk began, and its next step from there.

    Raises:
        UsageError: The state is invalid, or belongs to another order or to a worker of another
            loader.
    """
    if "share" not in state:
        return parse_state(state, identity), worker
    place = _checked(state, identity)
    share = Share(**state["share"])
    if (share.worker, share.workers, share.stride) != (worker, workers, stride):
        raise UsageError(
            f"this state is of worker {share.worker} of {share.workers} and global mini-batches of "
            f"{share.stride} samples, not of worker {worker} of {workers} and {stride}",
            "to change these numbers, give the old loader's state to stream.load_state_dict(), and "
            "no state to the new loader",
        )
    return place, share.step


def _parts(state: object) -> Iterator[Mapping[str, Any]]:
    """Yield the states of streams in a state that may be a loader's: dicts within dicts."""
    if not isinstance(state, Mapping):
        return
    if state.get("kind") == _KIND:
        yield state
        return
    for value in state.values():
        yield from _parts(value)


def _checked(state: Mapping[str, Any], identity: OrderIdentity) -> Place:
    if state.get("version") != VERSION:
        raise UsageError(
            f"this state has version {state.get('version')!r}; this packer reads version {VERSION}",
            "resume with the packer version that wrote it",
        )
    wrong = [
        f"{name} {state.get(name)!r} (here {value!r})"
        for name, value in asdict(identity).items()
        if state.get(name) != value
    ]
    if wrong:
        raise UsageError(
            "this state belongs to another order: " + ", ".join(wrong),
            "resume with the arguments that it was saved with; batch_size, ranks and workers may "
            "differ",
        )
    return Place(int(state["epoch"]), int(state["position"]))
