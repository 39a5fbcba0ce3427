from dataclasses import dataclass
from pathlib import Path

import pytest

from packer.cli._reporter import make_reporter
from packer.cli._summary import as_json, summarise
from packer.pack.manifest import Manifest


@dataclass(frozen=True)
class _Made:
    out: Path
    manifest: Manifest | None
    was_complete: bool = False
    restored: tuple[str, ...] = ()


def test_an_incomplete_pack_has_no_counts(tmp_path: Path) -> None:
    assert as_json(_Made(tmp_path, None)) == {
        "out": str(tmp_path),
        "complete": False,
        "was_complete": False,
        "restored": [],
    }


def test_five_skipped_pictures_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f'{{"path": "a/{n}.jpg", "reason": "empty", "detail": "0 bytes"}}\n' for n in range(7)]
    (tmp_path / "skipped.jsonl").write_text("".join(lines))
    counts = {"planned": 9, "packed": 2, "skipped": 7, "notes": {"gray": 1}, "ignored": {}}
    manifest = Manifest("x", "tar", 4, (), (), (), {}, counts)
    reporter = make_reporter("none", quiet=False, verbose=False)
    summarise(_Made(tmp_path, manifest), reporter)
    said = capsys.readouterr().err
    assert "2 packed of 9 planned" in said
    assert "notes: 1 gray" in said
    assert "ignored" not in said
    assert said.count("skipped a/") == 5
    assert "… and 2 more" in said
