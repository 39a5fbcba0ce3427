from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, ImageFile

from packer.errors import ImageError
from packer.imaging.pil import from_pixels, opened, to_pixels
from packer.types import Pixels


def test_pixels_go_in_and_out_unchanged(photo: Pixels) -> None:
    """Red and blue must not be exchanged."""
    image = from_pixels(photo)
    assert image.mode == "RGB"
    assert image.size == (120, 80)
    assert image.getpixel((5, 3)) == tuple(photo[3, 5])
    assert np.array_equal(to_pixels(image), photo)
    assert np.array_equal(to_pixels(from_pixels(photo[::2, ::-1])), photo[::2, ::-1])


def test_the_picture_owns_its_pixels(photo: Pixels) -> None:
    mine = photo.copy()
    image = from_pixels(mine)
    mine[:] = 0
    assert np.array_equal(to_pixels(image), photo)


def test_pillows_switches_are_as_they_were(photo: Pixels, save: Callable[..., bytes]) -> None:
    before = Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, warnings.filters[:]
    with opened(save(photo, "png"), "png"):
        assert ImageFile.LOAD_TRUNCATED_IMAGES is False
    with pytest.raises(ImageError), opened(b"nothing", "png"):
        pass
    assert before == (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES, warnings.filters[:])


def test_the_kind_decides_the_decoder(photo: Pixels, save: Callable[..., bytes]) -> None:
    with pytest.raises(ImageError, match="undecodable"), opened(save(photo, "png"), "gif"):
        pass


def test_memory_errors_pass(photo: Pixels, save: Callable[..., bytes]) -> None:
    with pytest.raises(MemoryError), opened(save(photo, "png"), "png"):
        raise MemoryError


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_while_another_thread_reads_does_not_hang(
    photo: Pixels, save: Callable[..., bytes]
) -> None:
    data = save(photo, "png")
    inside, done = threading.Event(), threading.Event()

    def read() -> None:
        with opened(data, "png"):
            inside.set()
            done.wait(0.2)

    reader = threading.Thread(target=read)
    reader.start()
    inside.wait(10)
    child = os.fork()
    if child == 0:
        with opened(data, "png"):
            os._exit(0)
    done.set()
    reader.join()
    for _ in range(100):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        threading.Event().wait(0.05)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert status == 0
