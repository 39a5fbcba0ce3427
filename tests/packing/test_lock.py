import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from packer.errors import OutputError
from packer.packing.lock import Lock

_HOLD = """
import sys, time
from pathlib import Path
from packer.packing.lock import Lock
part = int(sys.argv[2]) if sys.argv[2] != "all" else None
with Lock(Path(sys.argv[1]), part):
    print("held", flush=True)
    time.sleep(60)
"""


def _holder(folder: Path, part: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(folder), part], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def _end(process: "subprocess.Popen[str]", number: int = signal.SIGKILL) -> None:
    process.send_signal(number)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.parametrize(
    ("held", "wanted", "refused"),
    [("all", None, True), ("all", 1, True), ("1", None, True), ("1", 1, True), ("1", 2, False)],
)
def test_who_excludes_whom(tmp_path: Path, held: str, wanted: int | None, refused: bool) -> None:
    process = _holder(tmp_path, held)
    try:
        if refused:
            with (
                pytest.raises(OutputError, match=rf"process {process.pid}, since"),
                Lock(tmp_path, wanted),
            ):
                pass
        else:
            with Lock(tmp_path, wanted):
                assert len(list(tmp_path.glob("lock-*"))) == 2
    finally:
        _end(process)
    assert len(list(tmp_path.glob("lock-*"))) == 1


def test_a_killed_holder_is_replaced(tmp_path: Path) -> None:
    _end(_holder(tmp_path, "all"))
    with Lock(tmp_path, None):
        assert json.loads((tmp_path / "lock-all").read_text())["pid"] == os.getpid()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("change", [{"boot": "another"}, {"started": "1"}, {"pid": "no number"}])
def test_a_number_that_went_to_another_process_does_not_hold(
    tmp_path: Path, change: dict[str, str]
) -> None:
    with Lock(tmp_path, None):
        text = (tmp_path / "lock-all").read_text()
    (tmp_path / "lock-all").write_text(json.dumps({**json.loads(text), **change}))
    with Lock(tmp_path, 3):
        assert [path.name for path in tmp_path.iterdir()] == ["lock-3"]


def test_a_holder_on_another_host_is_believed(tmp_path: Path) -> None:
    holder = {"host": "node7", "boot": "x", "pid": 1, "started": "1", "since": "2026-01-01"}
    (tmp_path / "lock-all").write_text(json.dumps(holder))
    with pytest.raises(OutputError, match=r"packer on node7, process 1.*remove .*lock-all"):
        Lock(tmp_path, None).__enter__()
    assert [path.name for path in tmp_path.iterdir()] == ["lock-all"]


def test_a_lock_file_cut_short_by_a_power_failure_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "lock-all").write_bytes(b"")
    with Lock(tmp_path, None):
        assert json.loads((tmp_path / "lock-all").read_text())["pid"] == os.getpid()
