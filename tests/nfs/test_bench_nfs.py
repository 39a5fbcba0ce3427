"""bench_nfs.py, on a folder that is no NFS mount and with a command that counts."""

from __future__ import annotations

import json
import runpy
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.nfs

SCRIPTS = Path(__file__).parents[2] / "scripts"
MOUNTSTATS = """\
device sys mounted on /sys with fstype sysfs
device srv:/a mounted on /mnt/a with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=524288
\tbytes:\t32271258 0 0 0 32271999 7 79 0
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 0 0 2 0 0 18 18 0 18 0 2 0 0
\tper-op statistics
\t        NULL: 1 1 0 44 24 7 1 8 0
\t        READ: 62 62 0 12000 32280000 9 9 9 0
\t       WRITE: 0 0 0 0 0 0 0 0 0
device srv:/b mounted on /mnt/b with fstype nfs statvers=1.1
\tbytes:\t1 0 0 0 2 0 0 0
\tper-op statistics
\t      LOOKUP: 5 5 0 0 0 0 0 0 0
"""


def test_reads_the_client_s_own_counters() -> None:
    mount = runpy.run_path(str(SCRIPTS / "bench" / "nfs_mount.py"))
    lines = MOUNTSTATS.splitlines()
    found = mount["parse_mountstats"](lines, "/mnt/a")
    assert (dict(found.ops), found.read, found.rpcs) == ({"NULL": 1, "READ": 62}, 32271999, 63)
    other = mount["parse_mountstats"](lines, "/mnt/b")
    assert (dict(other.ops), other.read) == ({"LOOKUP": 5}, 2)
    assert mount["parse_mountstats"](lines, "/sys") is None
    assert found.since(mount["Counts"](found.ops.__class__(READ=60), 999)).rpcs == 3


def test_measures_every_reader(
    make_tree: Callable[..., Path], tmp_path: Path, bench: list[str]
) -> None:
    """Everybody reads the same pictures, and counts and seconds come into the table."""
    source, data, out = make_tree(classes=3, each=8), tmp_path / "data", tmp_path / "out.json"
    making = ["prepare", str(source), str(data), "--images", "20", "--resize", "48"]
    subprocess.run([*bench, *making], check=True, timeout=60)
    # Counts three calls more each time that it is asked.
    counter = tmp_path / "count"
    script = tmp_path / "stats.sh"
    script.write_text(
        f"echo >> {counter}; n=$(wc -l < {counter})\n"
        'echo "{\\"ops\\": {\\"READ\\": $((n * 3))}, \\"read_from_server\\": $((n * 1000))}"\n'
    )
    asked = ["measure", str(data), "--label", "here", "--json", str(out), "--rounds", "2"]
    commands = ["--stats", f"sh {script}", "--cold", f"touch {tmp_path}/cold"]
    done = subprocess.run(
        [*bench, *asked, *commands], check=True, capture_output=True, text=True, timeout=120
    )
    assert (tmp_path / "cold").exists()
    rows = json.loads(out.read_text())["rows"]
    names = {row["case"] for row in rows}
    assert {"folder 1", "folder 8", "one-file", "tar none", "lmdb full"} <= names
    assert {"hdf5 batch", "tar window, 2 workers"} <= names
    assert len({row["size"] for row in rows}) == 1
    assert all(row["images"] == 20 for row in rows if row["case"] != "one-file")
    assert all(row["rpcs"] == 3 and row["fetched"] == 1000 for row in rows)
    assert all(len(row["seconds"]) == 2 for row in rows)

    printed = subprocess.run(
        [*bench, "table", str(out), str(out)], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert printed[0] == "| one epoch | here | here |"
    assert len(printed) == len(rows) + 2
    assert "3 (1 ×)" in printed[2]
    assert done.stdout.splitlines()[0] == "| one epoch | here |"
