"""Which process of a training job this is: rank and worker."""

from __future__ import annotations

import os
import sys

from packer.errors import UsageError


def resolve(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Rank and number of ranks: as given, else torch.distributed's when it is initialised, else
    the environment's RANK and WORLD_SIZE (set by torchrun), else 0 of 1.

    Raises:
        UsageError: Only one of the two is given, they are invalid, or torch.distributed says
            otherwise. (Its processes may come in groups that read alike, so a number of ranks that
            divides the number of processes is accepted.)
    """
    if (rank is None) != (world_size is None):
        raise UsageError("rank and world_size go together", "give both or neither")
    group = _from_torch()
    if rank is None or world_size is None:
        rank, world_size = group or _from_environment() or (0, 1)
    if not 0 <= rank < world_size:
        raise UsageError(f"rank {rank} is none of {world_size} ranks, from 0")
    if group is not None and (
        group[1] % world_size or (world_size == group[1] and rank != group[0])
    ):
        raise UsageError(
            f"rank={rank}, world_size={world_size} was given, but for torch.distributed this "
            f"process is rank {group[0]} of {group[1]}",
            "leave out rank and world_size, as they are found without",
        )
    return rank, world_size


def group_size() -> int:
    """Number of processes of torch.distributed; 1 if it is not initialised."""
    group = _from_torch()
    return 1 if group is None else group[1]


def worker() -> tuple[int, int] | None:
    """Number of this DataLoader worker process and how many there are; None outside of one."""
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
            f"environment: RANK={rank!r} WORLD_SIZE={world_size!r} are no numbers"
        ) from None


def on_this_node() -> int:
    """Number of ranks on this node, as torchrun tells in LOCAL_WORLD_SIZE; 1 without it."""
    try:
        return max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    except ValueError:
        return 1
