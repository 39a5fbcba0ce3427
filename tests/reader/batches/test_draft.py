from __future__ import annotations

import numpy as np
import pytest

from packer.reader.batches.draft import Apart, Draft, InSheet
from packer.reader.batches.material import Wanted


@pytest.mark.parametrize(
    ("pictures", "count"),
    [
        (None, 0),
        (Apart([memoryview(b"a"), None], [None, None]), 2),
        (InSheet([memoryview(b"a")], np.zeros((3, 2, 2, 3), np.uint8), lent=True), 1),
    ],
)
def test_pictures_to_decode(pictures: Apart | InSheet | None, count: int) -> None:
    draft = Draft(Wanted(0, 0, 0), np.arange(3), [0, 1, 2], 0, pictures=pictures)
    assert draft.count == count
