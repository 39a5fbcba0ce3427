from __future__ import annotations

import numpy as np
import pytest

from packer.errors import MissingDependency
from packer.imaging import planes


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("opencv", [True, False])
def test_one_plane_a_channel(dtype: str, opencv: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise MissingDependency("OpenCV")

    if not opencv:
        monkeypatch.setattr(planes, "load_cv2", missing)
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(dtype)
    out = np.zeros((3, 5, 7), dtype)
    planes.to_planes(pixels, out)
    assert np.array_equal(out, pixels.transpose(2, 0, 1))
