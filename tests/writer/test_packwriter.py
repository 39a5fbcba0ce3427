import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from packer import registry
from packer.convert import ConvertOptions
from packer.errors import ImageError, OutputError, TooManySkipped, UsageError
from packer.pack.manifest import read_manifest
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
        ({"image": "txt"}, "invalid field name 'image'"),
        ({"key": "txt"}, "invalid field name 'key'"),
        ({"a/b": "txt"}, "invalid field name 'a/b'"),
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
        with pytest.raises(ImageError, match="not H×W×3 or H×W uint8"):
            writer.write(image=np.zeros((3, 4, 2), np.uint8), key="two")
        writer.write(image=_pixels(1), key="two", label=0)
    assert read_manifest(tmp_path / "pack").counts["packed"] == 2


SMALL = ConvertOptions(codec="png", batch_size=2, shard_size=1)  # a shard of each batch


def said(error: BaseException) -> str:
    return " ".join([*getattr(error, "__notes__", []), str(error.__cause__)])


def write_all_unlabelled(writer: PackWriter, count: int) -> None:
    for number in range(count):
        writer.write(image=_pixels(number), key=str(number))


def test_bad_pictures_are_skipped_and_listed(tmp_path: Path) -> None:
    with PackWriter(tmp_path / "pack", options=SMALL, on_error="skip") as writer:
        given: list[Any] = [
            _pixels(0),
            b"no picture",
            _pixels(2),
            tmp_path / "gone.jpg",
            _pixels(4),
        ]
        packed = [writer.write(image=image, key=str(n)) for n, image in enumerate(given)]
        assert packed == [True, False, True, False, True]
        with pytest.raises(UsageError, match="'1' was written already"):
            writer.write(image=_pixels(1), key="1")
    counts = read_manifest(tmp_path / "pack").counts
    assert (counts["planned"], counts["packed"], counts["skipped"]) == (5, 3, 2)
    lines = (tmp_path / "pack" / "skipped.jsonl").read_text().splitlines()
    assert [(json.loads(line)["path"], json.loads(line)["slot"]) for line in lines] == [
        ("1", 1),
        ("3", 3),
    ]
    assert json.loads(lines[1])["reason"] == "unreadable"
    assert PackedDataset(tmp_path / "pack").keys == ["0", "2", "4"]


def test_too_many_bad_pictures_stop_and_what_is_finished_is_kept(tmp_path: Path) -> None:
    options: dict[str, Any] = {"options": SMALL, "on_error": "skip", "resume": True}

    def write(**more: Any) -> None:
        with PackWriter(tmp_path / "pack", **options, **more) as writer:
            for number in range(16):
                bad = number % 4 == 3
                writer.write(image=b"bad" if bad else _pixels(number), key=str(number))

    with pytest.raises(
        TooManySkipped, match=r"3 of 12 .* 2 allowed.*PackWriter\(…, max_skipped=…\)"
    ):
        write(max_skipped=2)
    write(max_skipped=4)
    assert read_manifest(tmp_path / "pack").counts["skipped"] == 4
    with (
        pytest.raises(TooManySkipped, match="not one picture can be stored"),
        PackWriter(tmp_path / "none", on_error="skip") as writer,
    ):
        writer.write(image=b"bad", key="0")


def test_a_caller_may_go_on_after_an_error(tmp_path: Path) -> None:
    with PackWriter(tmp_path / "pack") as writer:
        for number in range(4):
            with contextlib.suppress(ImageError):
                writer.write(image=b"bad" if number == 1 else _pixels(number), key=str(number))
    assert PackedDataset(tmp_path / "pack").keys == ["0", "2", "3"]


@pytest.mark.parametrize("format_name", registry.names("formats"))
def test_samples_are_shuffled_on_request(tmp_path: Path, format_name: str) -> None:
    options = dataclasses.replace(SMALL, format=format_name)
    found = []
    for name, seed, numbers in (
        ("a", 0, range(40)),
        ("b", 0, range(39, -1, -1)),
        ("c", 1, range(40)),
    ):
        out = tmp_path / name / "pack"
        arguments: dict[str, Any] = {"classes": ["a", "b"], "options": options, "seed": seed}
        with PackWriter(out, **arguments, order="shuffled", fields={"note": "txt"}) as writer:
            for number in numbers:
                split, label = ("val" if number % 4 == 3 else "train"), number % 2
                note = {"note": b"%d" % number}
                image = _pixels(number)
                writer.write(image=image, key=f"{number}", label=label, split=split, fields=note)
        assert not (out / ".packer").exists()
        for split, count in (("train", 30), ("val", 10)):
            dataset = PackedDataset(out, split, decode="numpy")
            assert len(dataset) == count
            for sample, key in enumerate(dataset.keys):
                image, label = dataset[sample]
                assert np.array_equal(image, _pixels(int(key)))
                assert (label, dataset.field("note", sample)) == (int(key) % 2, key.encode())
        assert read_manifest(out).options["order"] == "shuffled"
        found.append(list(PackedDataset(out).keys))
        assert not verify_pack(out, VerifyOptions(decode=True, jobs=1)).damage
    assert found[0] == found[1] != found[2]
    assert found[0] != sorted(found[0], key=int)


def test_an_exception_while_samples_wait_leaves_nothing(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError) as caught,
        PackWriter(tmp_path / "pack", options=SMALL, order="shuffled") as writer,
    ):
        write_all_unlabelled(writer, 9)
        raise RuntimeError("mine")
    assert "nothing is kept" in said(caught.value)
    assert not list((tmp_path / "pack").iterdir())


@pytest.mark.parametrize("format_name", registry.names("formats"))
def test_raw_pixels_of_one_size_need_no_resize(tmp_path: Path, format_name: str) -> None:
    options = ConvertOptions(codec="raw", format=format_name, batch_size=2, shard_size=1)
    with pytest.raises(RuntimeError), PackWriter(tmp_path / "pack", options=options) as writer:
        write_all_unlabelled(writer, 2)
        with pytest.raises(ImageError, match=r"bad-size: 8 x 6 .*the first picture has 40 x 30"):
            writer.write(image=_pixels(9, 8, 6), key="other")
        raise RuntimeError("mine")
    with PackWriter(tmp_path / "pack", options=options, resume=True) as writer:
        write_all_unlabelled(writer, 2)
        with pytest.raises(ImageError, match="bad-size"):  # the size of the finished shard
            writer.write(image=_pixels(9, 8, 6), key="other")
    dataset = PackedDataset(tmp_path / "pack", decode="numpy")
    assert np.array_equal(dataset[1][0], _pixels(1))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"order": "shufled"}, "unknown order 'shufled'.*did you mean"),
        ({"on_error": "fail"}, "unknown on_error 'fail'"),
        ({"order": "shuffled", "resume": True}, "nothing to resume"),
        ({"max_skipped": 3}, "max_skipped without on_error='skip'"),
        ({"seed": 3}, "seed without order='shuffled'"),
        ({"options": ConvertOptions(split="none")}, "has no effect"),
    ],
    ids=str,
)
def test_arguments_that_cannot_be(tmp_path: Path, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        PackWriter(tmp_path / "pack", **arguments)
    assert not (tmp_path / "pack").exists()


class Strange:
    """An object whose code raises StopIteration."""

    def __fspath__(self) -> str:
        raise StopIteration


def test_a_users_object_does_not_end_a_loop(tmp_path: Path) -> None:
    with (
        PackWriter(tmp_path / "pack", classes=["a"]) as writer,
        pytest.raises(RuntimeError, match=r"picture of 'key' raised StopIteration"),
    ):
        writer.write(image=Strange(), key="key")


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    for out in (tmp_path, tmp_path / "thesis.txt"):
        with pytest.raises((UsageError, OutputError), match="not an empty folder"):
            PackWriter(out)


def test_an_empty_pack_is_a_pack(tmp_path: Path) -> None:
    with PackWriter(tmp_path / "pack"):
        pass
    assert read_manifest(tmp_path / "pack").counts["packed"] == 0
