from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from packer.reader.images.collate import collate_images, collate_labels


def test_pictures_of_one_size_become_one_channels_last_tensor() -> None:
    pictures = [np.full((4, 5, 3), value, np.uint8) for value in range(3)]
    tensor = collate_images(pictures)
    assert (tensor.shape, tensor.dtype) == ((3, 3, 4, 5), torch.uint8)
    assert tensor.is_contiguous(memory_format=torch.channels_last)
    assert tensor[:, 1, 2, 3].tolist() == [0, 1, 2]
    tensor += 1  # writable, and nobody else's
    assert pictures[0].max() == 0


def test_a_batch_of_one_is_a_batch() -> None:
    assert collate_images([np.zeros((4, 5, 3), np.uint8)]).shape == (1, 3, 4, 5)


def test_pictures_of_several_sizes_become_a_list() -> None:
    frozen = np.frombuffer(bytes(60), np.uint8).reshape(4, 5, 3)
    tensors = collate_images([frozen, np.zeros((6, 2, 3), np.uint8), frozen[:, ::-1]])
    assert [tuple(tensor.shape) for tensor in tensors] == [(3, 4, 5), (3, 6, 2), (3, 4, 5)]
    tensors[0] += 1
    assert frozen.max() == 0


def test_other_arrays_keep_their_shape() -> None:
    assert collate_images([np.zeros((4, 5)), np.zeros((4, 5))]).shape == (2, 4, 5)


def test_tensors_are_stacked_as_they_are() -> None:
    assert collate_images([torch.zeros(3, 4, 5)] * 2).shape == (2, 3, 4, 5)
    assert isinstance(collate_images([torch.zeros(3, 4, 5), torch.zeros(3, 4, 6)]), list)


def test_pil_images_are_pictures() -> None:
    images = [Image.new("RGB", (5, 4), (9, 8, 7))] * 2
    assert collate_images(images)[1, :, 0, 0].tolist() == [9, 8, 7]


def test_other_things_stay() -> None:
    assert collate_images([b"a", b"b"]) == [b"a", b"b"]
    assert collate_images(["x", None]) == ["x", None]


@pytest.mark.parametrize("labels", [[3, 1], [np.int32(3), np.int64(1)], [True, False]])
def test_integers_become_int64(labels: list[int]) -> None:
    tensor = collate_labels(labels)
    assert tensor.dtype == torch.int64
    assert tensor.tolist() == [int(label) for label in labels]


def test_other_labels_become_what_dataloader_makes_of_them() -> None:
    assert collate_labels([0.5, 1.0]).dtype == torch.float64
    assert collate_labels([torch.zeros(2), torch.ones(2)]).shape == (2, 2)
    assert collate_labels([{"a": 1}, {"a": 2}])["a"].tolist() == [1, 2]
