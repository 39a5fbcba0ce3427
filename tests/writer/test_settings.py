from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from packer.convert import ConvertOptions
from packer.errors import UsageError
from packer.writer import PackWriter
from packer.writer.settings import WriterSettings, settings_of


@pytest.fixture
def settings() -> WriterSettings:
    return settings_of(["cat", "dog"], None, {"note": "txt"}, "written", 0)


@pytest.mark.parametrize(
    "label",
    [1, "dog", np.int64(1), np.uint8(1), np.str_("dog"), np.array(1), torch.tensor(1)],
    ids=lambda label: type(label).__name__,
)
def test_labels_by_name_and_by_any_integer(settings: WriterSettings, label: Any) -> None:
    found = settings.label(label, "key")
    assert (found, type(found)) == (1, int)
    assert settings.label(-1, "key") == -1


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (True, "is bool, not an integer or a name"),
        (np.True_, "bool"),
        (torch.tensor(data=True), "is Tensor"),
        (1.0, "is float"),
        (np.float32(1), "is float32"),
        (torch.tensor(1.0), "is Tensor"),
        (None, "is NoneType"),
        (b"dog", "is bytes"),
        ([1], "is list"),
        ("dg", "unknown class 'dg' of 'key'.*did you mean 'dog'"),
        (2, "label 2 of 'key' is none of 2 classes"),
        (-2, "label -2"),
    ],
    ids=str,
)
def test_labels_that_are_none(settings: WriterSettings, label: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        settings.label(label, "key")
    with pytest.raises(UsageError, match=r"unknown class 'dog'.*PackWriter\(classes=…\)"):
        settings_of(None, None, None, "written", 0).label("dog", "key")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"split": "none"}, r"ConvertOptions\(split=…\) has no effect in PackWriter"),
        ({"jobs": 2}, r"jobs=…\) has no effect"),
        ({"order": "sorted"}, r"order=…\) has no effect.*PackWriter\(…, order=…\)"),
        ({"on_error": "fail"}, r"on_error=…\) has no effect.*PackWriter\(…, on_error=…\)"),
    ],
)
def test_options_without_effect_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        settings_of(None, ConvertOptions(**options), None, "written", 0)
    with pytest.raises(UsageError, match="seed without order='shuffled'"):
        settings_of(None, None, None, "written", 3)


def test_what_is_compared_is_what_was_given(settings: WriterSettings) -> None:
    value = settings.to_json()
    assert (value["classes"], value["fields"]) == (["cat", "dog"], {"note": "txt"})
    assert (value["options"]["order"], value["options"]["seed"]) == ("written", 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"classes": 5}, "classes 5 is not a list of names"),
        ({"classes": "cat"}, "invalid classes 'cat': one text"),
        ({"classes": [1, 2]}, "classes (1, 2) is not a list of names"),
        ({"options": {"resize": 8}}, "options {'resize': 8} is not ConvertOptions(…)"),
        ({"options": "tar"}, "options 'tar' is not ConvertOptions(…)"),
        ({"fields": ["caption"]}, "fields ['caption'] is not extensions by name"),
        ({"fields": {"caption": None}}, "fields {'caption': None} is not extensions by name"),
        ({"order": None}, "unknown order None (known: 'written', 'shuffled')"),
        ({"order": True}, "unknown order True"),
        ({"seed": "3", "order": "shuffled"}, "seed '3' is not a whole number"),
        ({"seed": True, "order": "shuffled"}, "seed True is not a whole number"),
        ({"on_error": ("skip",)}, "unknown on_error ('skip',)"),
        ({"on_error": "skip", "max_skipped": True}, "max_skipped True is not a whole number"),
        ({"on_error": "skip", "max_skipped": -1}, "max_skipped -1 is out of range (at least 0)"),
        ({"resume": "no"}, "resume 'no' is not true or false"),
    ],
    ids=str,
)
def test_wrong_types_are_refused_before_anything_is_written(
    tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        PackWriter(tmp_path / "pack", **arguments)
    assert str(caught.value).startswith(words)
    assert list(tmp_path.iterdir()) == []
