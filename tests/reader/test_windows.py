from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from packer.reader.order import EpochOrder, OrderOptions, Piece
from packer.reader.pack import Pack
from packer.reader.payloads import Payloads, Span
from packer.reader.windows import WindowBuffer


def buffer_of(
    build_pack: Any, monkeypatch: pytest.MonkeyPatch, shuffle: str
) -> tuple[Any, EpochOrder, WindowBuffer, list[Any]]:
    """A buffer over 12 batches of 4 in windows of 3, and a log of what it asks for."""
    built = build_pack([[4] * 6, [4] * 6])
    payloads = Payloads(Pack(built.root))
    log: list[Any] = []
    real = Payloads.span

    def span(self: Payloads, batch: int) -> Span:
        log.append(batch)
        return real(self, batch)

    monkeypatch.setattr(Payloads, "span", span)
    monkeypatch.setattr(Payloads, "advise", lambda self, batches: log.append(set(batches.tolist())))
    order = EpochOrder(np.full(12, 4), OrderOptions(1, shuffle, 3), 0)
    return built, order, WindowBuffer(payloads, order), log


@pytest.mark.parametrize("shuffle", ["none", "batch", "window"])
def test_each_batch_is_read_once_and_announced_before(
    build_pack: Any, monkeypatch: pytest.MonkeyPatch, shuffle: str
) -> None:
    built, order, buffer, log = buffer_of(build_pack, monkeypatch, shuffle)
    for start in range(0, 48, 5):
        for piece in order.pieces(start, min(start + 5, 48)):
            stored = [built.samples[sample].payloads["image"] for sample in piece.samples]
            assert list(buffer.read(piece, "image")) == stored
            assert len(buffer._spans) <= (3 if shuffle == "window" else 1)
    read = [entry for entry in log if isinstance(entry, int)]
    assert sorted(read) == list(range(12))
    announced: set[int] = set()
    for entry in log:
        if isinstance(entry, int):
            assert entry in announced
        else:
            announced |= entry


def test_only_what_is_needed_is_read(build_pack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker whose mini-batches leave a batch out does not read it."""
    _, order, buffer, log = buffer_of(build_pack, monkeypatch, "window")
    piece = next(iter(order.pieces(0, 1)))
    assert len(list(buffer.read(piece, "image"))) == 1
    assert [entry for entry in log if isinstance(entry, int)] == [int(piece.samples[0]) // 4]


def test_samples_without_a_window_are_read_one_by_one(
    build_pack: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, _, buffer, log = buffer_of(build_pack, monkeypatch, "full")
    piece = Piece(None, np.array([40, 3]))
    stored = [built.samples[sample].payloads["image"] for sample in (40, 3)]
    assert list(buffer.read(piece, "image")) == stored
    assert log == []
