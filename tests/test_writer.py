from pathlib import Path

import numpy as np
import pytest

from packer import registry
from packer.convert import ConvertOptions
from packer.errors import ImageError, OutputError, UsageError
from packer.manifest import read_manifest
from packer.reader import BatchStream, PackedDataset
from packer.verify import VerifyOptions, verify_pack
from packer.writer import PackWriter


def _pixels(
    seed: int, width: int = 40, height: int = 30
) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
    level = np.random.default_rng(seed).integers(0, 256, (1, 1, 3), dtype=np.uint8)
    return np.broadcast_to(level, (height, width, 3)).copy()


@pytest.mark.parametrize("format_name", registry.names("formats"))
def test_what_is_written_is_read(tmp_path: Path, format_name: str) -> None:
    options = ConvertOptions(format=format_name, batch_size=4, shard_size=3000, codec="png")
    with PackWriter(tmp_path / "pack", classes=["a", "b"], options=options) as writer:
        for number in range(30):
            split = "val" if number % 5 == 0 else "train"
            writer.write(image=_pixels(number), label=number % 2, key=f"{number}.png", split=split)
    assert not (tmp_path / "pack" / ".packer").exists()
    for split, numbers in [
        ("train", [n for n in range(30) if n % 5]),
        ("val", list(range(0, 30, 5))),
    ]:
        dataset = PackedDataset(tmp_path / "pack", split, decode="numpy")
        assert dataset.keys == [f"{number}.png" for number in numbers]
        for sample, number in enumerate(numbers):
            image, label = dataset[sample]
            assert label == number % 2
            assert (image == _pixels(number)).all()
    assert not verify_pack(tmp_path / "pack", VerifyOptions(decode=True, jobs=1)).damage


def test_bytes_pass_as_a_conversions_would(tmp_path: Path) -> None:
    data = registry.load("codecs", "png").encode(_pixels(1, 300, 200), ConvertOptions().image)
    options = ConvertOptions(resize="32", codec="png")
    with PackWriter(tmp_path / "pack", options=options) as writer:
        writer.write(image=data, key="bytes")
        writer.write(image=_pixels(1, 300, 200), key="pixels")
    dataset = PackedDataset(tmp_path / "pack", decode="numpy")
    assert dataset[0][0].shape == (32, 48, 3)
    assert (dataset[0][0] == dataset[1][0]).all()
    assert dataset[0][1] == -1


@pytest.mark.parametrize("format_name", registry.names("formats"))
def test_further_fields(tmp_path: Path, format_name: str) -> None:
    """Also names that a format uses itself, and samples that lack a field."""
    options = ConvertOptions(format=format_name, batch_size=3, codec="png")
    fields = {"caption": "txt", "labels": "json", "path": "path"}
    with PackWriter(tmp_path / "pack", options=options, fields=fields) as writer:
        for number in range(7):
            given = {"caption": f"number {number}".encode(), "labels": bytes(number)}
            if number % 2:
                del given["labels"]
            writer.write(image=_pixels(number), key=str(number), fields=given)
    assert not verify_pack(tmp_path / "pack", VerifyOptions(decode=True, jobs=1)).damage
    dataset = PackedDataset(tmp_path / "pack", decode="numpy")
    fields_read = ("key", "caption", "labels", "path", "image")
    stream = BatchStream(dataset, 7, shuffle="none", fields=fields_read)
    [(keys, captions, labels, paths, images)] = list(stream)
    assert keys == [str(number) for number in range(7)]
    assert captions == [b"number %d" % number for number in range(7)]
    assert labels == [None if number % 2 else bytes(number) for number in range(7)]
    assert paths == [None] * 7
    assert (images[4].permute(1, 2, 0).numpy() == _pixels(4)).all()
    assert dataset.field("caption", 5) == b"number 5"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"image": "txt"}, "'image' cannot name a field"),
        ({"key": "txt"}, "'key' cannot name a field"),
        ({"a/b": "txt"}, "'a/b' cannot name a field"),
        ({"caption": "jpg"}, "extension 'jpg' of field 'caption'"),
        ({"caption": "cls"}, "extension 'cls'"),
        ({"caption": ".txt"}, "extension '.txt'"),
        ({"a": "txt", "b": "txt"}, "extension 'txt' of field 'b'"),
    ],
)
def test_fields_that_cannot_be(tmp_path: Path, fields: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        PackWriter(tmp_path / "pack", fields=fields)
    assert not (tmp_path / "pack").exists()


def test_values_of_fields_that_cannot_be(tmp_path: Path) -> None:
    with PackWriter(tmp_path / "pack", fields={"caption": "txt"}) as writer:
        with pytest.raises(UsageError, match=r"unknown field 'captoin' of 'a'.*did you mean"):
            writer.write(image=_pixels(0), key="a", fields={"captoin": b""})
        with pytest.raises(UsageError, match="field 'caption' of 'a' is str, not bytes"):
            writer.write(image=_pixels(0), key="a", fields={"caption": "text"})  # type: ignore[dict-item]
        writer.write(image=_pixels(0), key="a")
    with (
        PackWriter(tmp_path / "other") as writer,
        pytest.raises(UsageError, match=r"unknown field 'caption'.*name it in PackWriter"),
    ):
        writer.write(image=_pixels(0), key="a", fields={"caption": b""})


def test_wrong_samples_are_refused_and_cost_nothing(tmp_path: Path) -> None:
    with PackWriter(tmp_path / "pack", classes=["a"]) as writer:
        writer.write(image=_pixels(0), key="one", label=0)
        with pytest.raises(UsageError, match="'one' was written already"):
            writer.write(image=_pixels(1), key="one", label=0)
        with pytest.raises(UsageError, match="label 1 of 'two' is none of 1 classes"):
            writer.write(image=_pixels(1), key="two", label=1)
        with pytest.raises(UsageError, match="cannot name a split"):
            writer.write(image=_pixels(1), key="two", split="../etc")
        with pytest.raises(ImageError, match=r"undecodable|unsupported"):
            writer.write(image=b"no picture", key="two")
        with pytest.raises(ImageError, match="not H×W×3 uint8"):
            writer.write(image=np.zeros((3, 4), np.uint8), key="two")
        writer.write(image=_pixels(1), key="two", label=0)
    assert read_manifest(tmp_path / "pack").counts["packed"] == 2


def test_leaving_by_an_exception_leaves_nothing(tmp_path: Path) -> None:
    options = ConvertOptions(batch_size=2, shard_size=1)
    with (
        pytest.raises(RuntimeError, match="mine"),
        PackWriter(tmp_path / "pack", options=options) as writer,
    ):
        for number in range(5):
            writer.write(image=_pixels(number), key=str(number))
        raise RuntimeError("mine")
    assert not list((tmp_path / "pack").iterdir())


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    for out in (tmp_path, tmp_path / "thesis.txt"):
        with pytest.raises((UsageError, OutputError), match="not an empty folder"):
            PackWriter(out)


def test_an_empty_pack_is_a_pack(tmp_path: Path) -> None:
    with PackWriter(tmp_path / "pack"):
        pass
    assert read_manifest(tmp_path / "pack").counts["packed"] == 0
