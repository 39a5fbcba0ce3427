"""scripts/bench_read.py and its parts, with a few drawn pictures."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from packer.convert import convert_dataset
from packer.reader import PackedDataset
from packer.reader.order.hashing import Draws, combine
from packer.settings.options import ConvertOptions
from tests.trees import draw_tree

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parent.parent / "scripts"
COUNT = 160

# A peer: reads packer's pictures one by one. The last argument selects its fault.
PEER = """
import sys
import numpy as np
from bench.read_serve import serve
from packer.reader import PackedDataset
from packer.reader.transforms import CenterCrop

data, task, workers, wrong = sys.argv[1:]
print("{not JSON")
dataset = PackedDataset(data + "/pack", transform=[CenterCrop(224)], decode="numpy")
numbers = range(len(dataset) // 8 if wrong == "few" else len(dataset))

def epoch(number):
    for first in range(0, len(numbers), 64):
        pairs = [dataset[number] for number in numbers[first : first + 64]]
        pixels = np.stack([image for image, label in pairs])
        labels = [label + (wrong == "labels") for image, label in pairs]
        yield pixels // 2 if wrong == "dark" else pixels, labels
        if wrong == "late" and number == 1:
            sys.exit("had enough")

serve(epoch, ["numpy"])
"""


@pytest.fixture(name="script")
def _script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a script's part."""
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module


@pytest.fixture(name="data", scope="module")
def _data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both packs of 160 pictures, and a peer's program."""
    work = tmp_path_factory.mktemp("bench")
    folder = draw_tree(work / "photos", classes=2, each=COUNT // 2, size=230)
    data = work / "data"
    jpeg = ConvertOptions(resize="256", backend="sequential")
    raw = dataclasses.replace(jpeg, resize_mode="crop", codec="raw")
    convert_dataset(folder, data / "pack", jpeg)
    convert_dataset(folder, data / "pack-raw", raw)
    (work / "peer.py").write_text(PEER)
    return data


def bench(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / "bench_read.py"), str(data), "--quick", *arguments]
    command += ["--workers", "1"]
    # Not below tmp_path: a reader's sockets need short paths.
    with tempfile.TemporaryDirectory(prefix="b-") as scratch:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "TMPDIR": scratch},
        )
        assert list(Path(scratch).iterdir()) == []
    return done


def peer(data: Path, name: str, wrong: str = "nothing") -> list[str]:
    command = f"{sys.executable} {data.parent}/peer.py {{data}} {{task}} {{workers}} {wrong}"
    return ["--peer", f"{name}:center={command}"]


def test_measures_all_readers(data: Path, tmp_path: Path) -> None:
    done = bench(
        data,
        *("--tasks", "center", "raw", *peer(data, "plain")),
        *("--json", str(tmp_path / "out.json"), "--svg", str(tmp_path / "out.svg")),
        *("--markdown", str(tmp_path / "out.md")),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (tmp_path / "out.md").read_text()

    value = json.loads((tmp_path / "out.json").read_text())
    cases = {(case["task"], case["cache"]): case for case in value["cases"]}
    assert [*cases] == [(task, cache) for task in ("center", "raw") for cache in ("warm", "cold")]
    ours = ["packer Loader", "packer BatchStream"]
    center = ["limit decode", "limit pixels", "limit packer", *ours, "plain"]
    assert [*cases["center", "warm"]["rounds"]] == center
    assert [*cases["raw", "cold"]["rounds"]] == ["limit copy", "limit packer", *ours]

    warm = cases["center", "warm"]
    assert (warm["fastest_peer"], cases["raw", "warm"]["fastest_peer"]) == ("plain", None)
    speeds = {name: rounds[0]["speed"] for name, rounds in warm["rounds"].items()}
    [ratio] = warm["to_peer"]["packer Loader"]
    assert ratio == pytest.approx(speeds["packer Loader"] / speeds["plain"])
    assert warm["to_limit"][warm["limit"]] == [1.0]
    assert all(50 < speed < 1e6 for speed in speeds.values()), speeds
    for reader in value["readers"]:
        for seen in reader["checks"].values():
            assert seen["images"] == COUNT
            assert seen.get("labels", COUNT // 2) == COUNT // 2  # classes 0 and 1
        assert reader["versions"]["numpy"] == np.__version__
    assert f"| plain | {speeds['plain']:.0f} (" in done.stdout
    ElementTree.parse(tmp_path / "out.svg")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("few", "gave 20 of 160 pictures"),
        ("labels", "labels add up to 240, not 80"),
        ("dark", "mean of all values"),
        ("late", "had enough"),
    ],
)
def test_leaves_out_who_fails_and_says_so(data: Path, wrong: str, said: str) -> None:
    """A peer that reads less, or something else, is no faster one; it stops nobody else."""
    task = ("--tasks", "center", "--caches", "warm", "--only", "wrong", "plain")
    done = bench(data, *task, *peer(data, "wrong", wrong), *peer(data, "plain"))
    assert done.returncode == 1
    assert "failed:\ncenter" in done.stderr
    assert said in done.stderr.split("failed:")[1]
    assert "| plain |" in done.stdout and "| wrong |" not in done.stdout


def test_says_what_a_peer_lacks(data: Path) -> None:
    for text, said in (
        ("name=command {data} {task}", "{workers}"),
        ("name:walk=command {data} {task} {workers}", "unknown task 'walk'"),
    ):
        done = bench(data, "--peer", text)
        assert done.returncode == 1 and said in done.stderr


def test_says_what_there_is_not(data: Path, tmp_path: Path) -> None:
    done = bench(data, "--only", "packer Loder")
    assert done.returncode == 1 and "'packer Loder'" in done.stderr
    done = bench(tmp_path / "elsewhere")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert str(tmp_path / "elsewhere" / "pack") in done.stderr


@pytest.mark.parametrize("task", ["train", "center"])
def test_limits_do_the_same_work(data: Path, task: str, script: Callable[[str], Any]) -> None:
    """The limit's crops, by hand, are those that packer's decoder writes."""
    limit, work = script("bench.read_limit"), script("bench.read_work")
    pack = data / "pack"
    payloads = limit.load(pack)
    by_hand = limit.pixels_work(pack, task, payloads)
    decoder = PackedDataset(pack, transform=work.transforms(task), decode="numpy").decoder
    out, expected = np.zeros((2, 224, 224, 3), np.uint8)
    for number in range(40):
        by_hand([number], out[None])
        decoder.write(payloads[number], number, Draws(combine(number)), expected)
        # Resized by different filters, perhaps. A pixel beside would be 4 levels off (noise).
        difference = np.abs(out.astype(int) - expected)
        assert difference.mean() <= (1.5 if task == "train" else 0), number
        expected[:] = 0


def test_limits_count_what_they_do(script: Callable[[str], Any]) -> None:
    """All processes together: each picture once an epoch, and no more when the time is over."""
    limit = script("bench.read_limit")

    def work(numbers: Sequence[int], outs: Any) -> None:
        time.sleep(0.001 * len(numbers))
        outs[:, 0, 0, 0] = numbers

    found = limit.run(work, 50, 2, look=True)
    assert (found["images"], found["total"]) == (50, sum(range(50)))
    assert 0.025 <= found["seconds"] < 5
    assert limit.run(work, 50, 2, epochs=3)["images"] == 150
    assert limit.run(work, 50, 2, epochs=10_000, seconds=0.2)["images"] < 1000


def test_a_pass_leaves_the_first_mini_batch_out(
    script: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = script("bench.read_serve")
    opened, now = [], [100.0]
    monkeypatch.setattr(served, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def epoch(number: int) -> Iterator[tuple[Any, Any]]:
        opened.append(number)
        now[0] += 2.0 if number == 0 else 0.0
        for _ in range(4):
            now[0] += 0.25
            yield np.zeros((8, 2, 2, 3), np.uint8), [1] * 8

    found = served.measure(epoch, iter(range(10)), 2, 60.0)
    assert (found["images"], found["seen"], opened) == (7 * 8, 8 * 8, [0, 1])
    assert (found["first"], found["seconds"]) == (2.25, 7 * 0.25)
    # Whole epochs, until there are enough seconds.
    served.measure(epoch, iter(range(2, 10)), 5, 1.5)
    assert opened == [0, 1, 2, 3]


def test_who_waits_stands_still(script: Callable[[str], Any], tmp_path: Path) -> None:
    """None reads ahead in another one's turn, and no process outlives the measurement."""
    process = script("bench.read_process")
    beat = tmp_path / "beat"
    pid = tmp_path / "pid"
    child = (
        f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\n"
        f"while 1: open({str(beat)!r}, 'a').write('x'); time.sleep(0.01)"
    )
    code = (
        "import json, subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', sys.argv[1]])\n"
        "print(json.dumps({'versions': {}}), flush=True)\n"
        "for line in sys.stdin: print(json.dumps({'asked': line}), flush=True)\n"
    )
    place = process.Place(tmp_path, "center", 1, tmp_path)
    with process.Reader("beats", [sys.executable, "-c", code, child], place) as reader:
        while not beat.exists():
            time.sleep(0.01)
        assert reader.ask(ask="x")["asked"] == '{"ask": "x"}\n'
        stopped = Path(f"/proc/{int(pid.read_text())}/stat")
        while stopped.read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.01)  # the signal is on its way
        still = beat.stat().st_size
        time.sleep(0.3)
        assert beat.stat().st_size == still
    after = beat.stat().st_size
    time.sleep(0.3)
    assert beat.stat().st_size == after


def test_drops_files_from_the_page_cache(script: Callable[[str], Any], tmp_path: Path) -> None:
    kind = subprocess.run(
        ["stat", "-f", "-c", "%T", str(tmp_path)], check=True, capture_output=True, text=True
    ).stdout
    if kind.strip() in ("tmpfs", "ramfs"):
        pytest.skip("the folder for tests lies in memory")
    cache = script("bench.read_cache")
    (tmp_path / "many").mkdir()
    for number in range(4):
        (tmp_path / "many" / str(number)).write_bytes(os.urandom(100_001))
    (tmp_path / "one").write_bytes(os.urandom(50_000))
    (tmp_path / "empty").touch()
    assert cache.cached(tmp_path) == {"many": 1.0, "one": 1.0}
    cache.drop(tmp_path)
    assert cache.cached(tmp_path) == {"many": 0.0, "one": 0.0}
    (tmp_path / "one").read_bytes()
    assert cache.cached(tmp_path) == {"many": 0.0, "one": 1.0}


def test_a_chart_shows_values_to_scale(script: Callable[[str], Any]) -> None:
    chart = script("bench.chart")
    bars = [
        chart.Bar("fast & good", 200.0, 190.0, 210.0, "packer"),
        chart.Bar("<slow>", 100.0, 90.0, 120.0, "peer"),
    ]
    text = chart.svg("images/s", [chart.Panel("one", bars, ("limit", 400.0))])
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    first, second = [
        float(found.get("width", ""))
        for found in root.iter(space + "rect")
        if found.get("class") != "page"
    ]
    assert first == pytest.approx(2 * second, abs=0.2)
    [line] = [x for x in root.iter(space + "line") if x.get("class") == "limit"]
    assert float(line.get("x1", "")) == pytest.approx(chart.NAMES + 2 * first, abs=0.2)
    words = [found.text for found in root.iter(space + "text")]
    assert {"fast & good", "<slow>", "200", "limit 400"} <= set(words)
