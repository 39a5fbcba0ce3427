"""Rank and worker number of this process in a training job."""

from __future__ import annotations

import os
import sys

from packer.errors import UsageError


def resolve(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return rank and number of ranks: the given ones, else torch.distributed's if it is
    initialised, else the environment's RANK and WORLD_SIZE (set by torchrun), else 0 and 1.

    Raises:
        UsageError: Only one of the two is given, they are invalid, or torch.distributed has others.
            (A number of ranks that divides the number of its processes is accepted, as its
            processes may form groups that read the same samples.)
    """
    if (rank is None) != (world_size is None):
        raise UsageError("rank and world_size go together", "give both or neither")
    group = _from_torch()
    if rank is None or world_size is None:
        rank, world_size = group or _from_environment() or (0, 1)
    if not 0 <= rank < world_size:
        raise UsageError(f"rank {rank} is out of range: 0 to {world_size - 1}")
    if group is not None and (
        group[1] % world_size or (world_size == group[1] and rank != group[0])
    ):
        raise UsageError(
            f"rank={rank}, world_size={world_size} was given, but in torch.distributed this "
            f"process is rank {group[0]} of {group[1]}",
            "leave out rank and world_size: they are taken from torch.distributed",
        )
    return rank, world_size


def group_size() -> int:
    """Return the number of processes of torch.distributed; 1 if it is not initialised."""
    group = _from_torch()
    return 1 if group is None else group[1]


def worker() -> tuple[int, int] | None:
    """Return this DataLoader worker's number and the number of workers; None outside of one."""
    torch = sys.modules.get("torch")
    info = torch.utils.data.get_worker_info() if torch is not None else None
    return None if info is None else (info.id, info.num_workers)


def _from_torch() -> tuple[int, int] | None:
    # A process that has not imported torch has not initialised torch.distributed either.
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available():
        return None
    if not torch.distributed.is_initialized():
        return None
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def _from_environment() -> tuple[int, int] | None:
    rank, world_size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None or world_size is None:
        return None
    try:
        return int(rank), int(world_size)
    except ValueError:
        raise UsageError(
            f"environment: RANK={rank!r} WORLD_SIZE={world_size!r} are not integers"
        ) from None


def on_this_node() -> int:
    """Return the number of ranks on this node: torchrun's LOCAL_WORLD_SIZE; 1 without it."""
    try:
        return max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    except ValueError:
        return 1
