"""Copying mini-batches to a device."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from packer.errors import UsageError


class Sent(NamedTuple):
    """Columns that are being copied.

    Attributes:
        columns: The columns on the device; not to be used before `arrived`.
        arrived: CUDA event of the end of the copy; None: there is nothing to wait for.
    """

    columns: dict[str, Any]
    arrived: Any = None


class Device:
    """Copies mini-batches to a device. Copies to a CUDA device use a CUDA stream of their own: they
    run beside the training loop's kernels, and the loop's stream waits for them, not the CPU.

    Args:
        name: Device as torch names it; None: mini-batches stay in main memory.

    Attributes:
        name: As given.
        device: The device; None: mini-batches stay in main memory.

    Raises:
        UsageError: This machine has no such device.
    """

    def __init__(self, name: str | torch.device | None) -> None:
        self.name = name
        self.device = _checked(name)
        self._stream: Any = None

    @property
    def cuda(self) -> bool:
        """Whether it is a CUDA device."""
        return self.device is not None and self.device.type == "cuda"

    def send(self, columns: dict[str, Any]) -> Sent:
        """Start copying the tensors of some columns; `receive` makes them safe to use."""
        device = self.device
        if device is None:
            return Sent(columns)
        if not self.cuda:
            return Sent({name: _moved(column, device) for name, column in columns.items()})
        if self._stream is None:
            # Not earlier: "cuda" means the current device of the training loop.
            new_stream: Any = torch.cuda.Stream  # torch has no types here
            self._stream = new_stream(device)
        with torch.cuda.stream(self._stream):
            moved = {name: _moved(column, device) for name, column in columns.items()}
            return Sent(moved, self._stream.record_event())

    def receive(self, sent: Sent) -> dict[str, Any]:
        """Return the columns; the current stream waits for the copy."""
        if sent.arrived is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_event(sent.arrived)
            for column in sent.columns.values():
                for tensor in column if isinstance(column, list) else [column]:
                    if isinstance(tensor, torch.Tensor):
                        # The memory belongs to the copying stream, which must not use it again
                        # before this stream has finished with it.
                        tensor.record_stream(current)
        return sent.columns

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stream": None}


def _checked(name: str | torch.device | None) -> torch.device | None:
    if name is None:
        return None
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"device {name!r}: {str(error).splitlines()[0]}") from None
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not count:
            raise UsageError(
                f"device {name!r}: this torch finds no CUDA device",
                "device='cpu', or None, for mini-batches in main memory",
            )
        if device.index is not None and device.index >= count:
            raise UsageError(f"device {name!r}: the last CUDA device here is cuda:{count - 1}")
    return None if device.type == "cpu" else device


def _moved(column: Any, device: torch.device) -> Any:
    if isinstance(column, torch.Tensor):
        return column.to(device, non_blocking=True)
    if isinstance(column, list):
        return [_moved(value, device) for value in column]
    return column
