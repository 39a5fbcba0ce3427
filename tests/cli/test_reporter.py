import json
import time

import pytest

from packer.cli._reporter import make_reporter
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


def test_json_events(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = make_reporter("json", quiet=False)
    reporter.progress(HALF)
    reporter.warn("careful")
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [event["event"] for event in events] == ["progress", "warning"]
    assert events[0]["done"] == 50


def test_a_bar_counts_bytes_for_downloads(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = make_reporter("bar", quiet=False, unit="bytes")
    reporter.progress(HALF)
    reporter.close()
    reporter.note("done")
    assert "packer: done\n" in capsys.readouterr().err
