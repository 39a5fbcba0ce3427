import json
import os
import re
import time
from pathlib import Path

import pytest

from packer.cli._reporter import make_reporter
from packer.errors import PackerError, TooManySkipped
from packer.reporting import Progress

HALF = Progress(done=50, total=100, skipped=2, read=5_000_000, written=1, fresh=50)


@pytest.mark.parametrize("progress", ["bar", "log", "json", "none", "auto"])
def test_quiet_keeps_warnings_only(progress: str, capsys: pytest.CaptureFixture[str]) -> None:
    reporter = make_reporter(progress, quiet=True)
    if progress != "json":
        reporter.note("a note")
        reporter.progress(HALF)
        reporter.close()
        assert capsys.readouterr().err == ""
    reporter.warn("careful")
    assert "careful" in capsys.readouterr().err


def test_log_writes_a_dated_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    reporter = make_reporter("log", quiet=False)
    for _ in range(100):
        now += 1.0
        reporter.progress(HALF)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert "50/100 images" in lines[0]
    assert "2 skipped" in lines[0]
    assert "30 s to go" in lines[0]


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        ("log", r"packer: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d scanning, (\d+) files so far"),
        ("bar", r"packer: scanning, ([\d,]+) files so far"),
        ("none", None),
    ],
)
def test_a_long_scan_is_told_of_now_and_then(
    progress: str,
    said: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over NFS it takes minutes: a log that stays empty looks like a job that hangs."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    reporter = make_reporter(progress, quiet=False)
    for thousands in range(1, 101):
        now += 1.0
        reporter.scanned(1000 * thousands)
    lines = capsys.readouterr().err.splitlines()
    found = [re.fullmatch(said, line) for line in lines] if said else []
    assert len(lines) == len(found)
    files = [match[1].replace(",", "") for match in found if match]
    assert files == (["30000", "60000", "90000"] if said else [])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0, "done: 50/100 images, 2 skipped, 7.0 s"),
        (1, "failed (exit code 1): 50/100"),
        (2, "failed (exit code 2): 50/100"),
        (3, "stopped (exit code 3): 50/100"),
        (4, "failed (exit code 4): 50/100"),
        (130, "stopped (exit code 130): 50/100"),
        (141, "stopped (exit code 141): 50/100"),
        (143, "stopped (exit code 143): 50/100"),
    ],
)
def test_the_last_line_of_a_log_is_the_verdict(
    code: int, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    reporter = make_reporter("log", quiet=False)
    reporter.progress(HALF)
    now += 7
    reporter.finish(code, PackerError("photos: gone", "bring them back") if code else None)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:-1] == (["packer: photos: gone", "packer: bring them back"] if code else [])
    assert re.fullmatch(rf"packer: \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d {re.escape(said)}.*", lines[-1])


def test_what_counts_nothing_has_a_verdict_without_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_reporter("log", quiet=False).finish(0, None)
    assert re.search(r"\d done: 0\.\d s\n$", capsys.readouterr().err)


@pytest.mark.parametrize("progress", ["bar", "none"])
def test_elsewhere_errors_are_the_last_word(
    progress: str, capsys: pytest.CaptureFixture[str]
) -> None:
    reporter = make_reporter(progress, quiet=False)
    reporter.finish(0, None)
    assert capsys.readouterr().err == ""
    reporter.finish(1, PackerError("photos: gone"))
    assert capsys.readouterr().err == "packer: photos: gone\n"


def test_json_events(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = make_reporter("json", quiet=False)
    reporter.begin("convert")
    reporter.progress(HALF)
    reporter.warn("careful")
    reporter.finish(3, TooManySkipped("too many", "--max-skipped"))
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [event["event"] for event in events] == ["start", "progress", "warning", "stopped"]
    assert events[0]["schema"] == "packer.events/1"
    assert (events[0]["command"], events[0]["pid"]) == ("convert", os.getpid())
    counts = {"unit": "images", "done": 50, "total": 100, "skipped": 2}
    assert counts.items() <= events[1].items()
    assert counts.items() <= events[3].items()
    assert (events[3]["exit_code"], events[3]["message"]) == (3, "too many")


def test_json_events_come_once_a_second(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    reporter = make_reporter("json", quiet=False)
    for done in range(1, 101):
        now += 0.1
        reporter.progress(Progress(done=done, total=100))
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert 9 <= len(events) <= 11
    assert events[-1]["done"] == 100


def test_a_scan_is_an_event_a_second(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    reporter = make_reporter("json", quiet=False)
    for thousands in range(1, 51):
        now += 0.1
        reporter.scanned(1000 * thousands)
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert 4 <= len(events) <= 6
    assert {event["event"] for event in events} == {"scan"}
    assert [event["files"] for event in events] == sorted(event["files"] for event in events)


def test_events_are_documented(capsys: pytest.CaptureFixture[str]) -> None:
    """Every event and every field of it is named in docs/slurm.md."""
    text = (Path(__file__).parent.parent.parent / "docs" / "slurm.md").read_text()
    reporter = make_reporter("json", quiet=False)
    reporter.begin("convert")
    reporter.scanned(1000)
    reporter.progress(HALF)
    reporter.note("a note")
    reporter.warn("careful")
    for code in (0, 1, 3):
        reporter.finish(code, PackerError("a", "b"))
    for line in capsys.readouterr().err.splitlines():
        event = json.loads(line)
        for word in (event["event"], *event):
            assert f"`{word}`" in text


def test_a_bar_counts_bytes_for_downloads(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = make_reporter("bar", quiet=False, unit="bytes")
    reporter.progress(HALF)
    reporter.close()
    reporter.note("done")
    assert "packer: done\n" in capsys.readouterr().err
