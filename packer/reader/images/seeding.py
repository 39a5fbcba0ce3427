"""Different random streams for the transforms of each worker and rank.

Worker processes start with copies of one transform object, so a generator that it made in its
`__init__` would give every worker the same numbers. And DataLoader seeds its workers from the
rank's own seed, which is the same on all ranks in most scripts. This is done once in each process:

- In a worker, generators that transforms hold (numpy's, `random.Random`, torch's; as attributes of
  the transform, or of transforms in a list that it holds) are seeded anew from their next number,
  the worker's torch seed and the rank.
- In a worker of a rank other than 0, the global generators of `random`, numpy and torch are seeded
  anew in the same way.
- In the training process of a rank other than 0, generators that transforms hold are seeded anew.
  The global generators stay: they are the user's.

So streams differ, and the same seeds give the same streams again. Built-in transforms do not need
this: see `packer.reader.transforms`.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from packer.reader.order import ranks
from packer.reader.order.hashing import combine


def separate(transforms: Iterable[object], rank: int) -> None:
    """Give this process random streams of its own.

    Args:
        transforms: The transforms that hold generators.
        rank: Rank of this process.
    """
    separate_held(transforms, rank)
    if ranks.worker() is not None and rank:
        _reseed_global(lambda drawn: combine(drawn, rank))


def separate_held(transforms: Iterable[object], rank: int) -> None:
    """Seed the generators that some transforms hold, and leave the global ones alone.

    Args:
        transforms: The transforms that hold generators.
        rank: Rank of this process.
    """
    in_worker = ranks.worker() is not None
    if not in_worker and rank == 0:
        return
    torch = sys.modules.get("torch")
    worker_seed = torch.initial_seed() if torch is not None and in_worker else 0
    for reseed in _held(transforms):
        reseed(lambda drawn: combine(drawn, worker_seed, rank))


def _reseed_global(mix: Callable[[int], int]) -> None:
    random.seed(mix(random.getrandbits(63)))
    # The legacy global generator takes 32 bits.
    np.random.seed(mix(int(np.random.randint(1 << 31))) % (1 << 32))
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(mix(_torch_bits(torch, None)) >> 1)


def _held(transforms: Iterable[object]) -> Iterator[Callable[[Callable[[int], int]], None]]:
    """For each generator that the transforms hold: a function that seeds it anew. Its argument
    makes the seed of the generator's next number.
    """
    waiting = list(transforms)
    seen: set[int] = set()
    while waiting:
        holder = waiting.pop(0)
        if id(holder) in seen:
            continue
        seen.add(id(holder))
        for value in getattr(holder, "__dict__", {}).values():
            if isinstance(value, list | tuple):
                waiting.extend(value)
            reseed = _reseeder(value)
            if reseed is not None and id(value) not in seen:
                seen.add(id(value))
                yield reseed


def _reseeder(value: Any) -> Callable[[Callable[[int], int]], None] | None:
    torch = sys.modules.get("torch")
    if isinstance(value, np.random.Generator):
        return lambda mix: _reseed_numpy(value, mix)
    if isinstance(value, np.random.RandomState):
        return lambda mix: value.seed(mix(int(value.randint(1 << 31))) % (1 << 32))
    if isinstance(value, random.Random):
        return lambda mix: value.seed(mix(value.getrandbits(63)))
    if torch is not None and isinstance(value, torch.Generator):
        return lambda mix: value.manual_seed(mix(_torch_bits(torch, value)) >> 1)
    return None


def _reseed_numpy(generator: np.random.Generator, mix: Callable[[int], int]) -> None:
    kind: Any = type(generator.bit_generator)
    drawn = int(generator.integers(1 << 63, dtype=np.uint64))
    generator.bit_generator.state = kind(mix(drawn)).state


def _torch_bits(torch: Any, generator: Any) -> int:
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator))
