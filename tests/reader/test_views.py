from __future__ import annotations

from typing import Any

import pytest

from packer.reader.pack import Pack
from packer.reader.views import Keys, Samples


def test_behave_like_lists(build_pack: Any) -> None:
    built = build_pack([[3], [4]])
    keys = Keys(Pack(built.root))
    assert len(keys) == 7
    assert list(keys) == built.keys
    assert keys == built.keys
    assert keys != built.keys[:-1]
    assert keys != 3
    assert (keys[-1], keys[2:4]) == (built.keys[-1], built.keys[2:4])
    assert built.keys[3] in keys
    assert keys.index(built.keys[5]) == 5
    for wrong in (7, -8):
        with pytest.raises(IndexError):
            keys[wrong]
    with pytest.raises(TypeError):
        hash(keys)
    assert repr(keys) == f"['{built.keys[0]}', '{built.keys[1]}', '{built.keys[2]}', …] (7 entries)"


def test_samples_pair_path_and_label(build_pack: Any) -> None:
    """LM09: index, key and label agree, beyond ten of them."""
    built = build_pack([[6], [7]])
    samples = Samples(Pack(built.root))
    assert samples == list(zip(built.keys, built.labels, strict=True))
    assert isinstance(samples[0][1], int)
