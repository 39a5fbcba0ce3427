"""Commands of SLURM that note how they were called, and a shell to call the scripts with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent.parent.parent / "scripts"

# Notes its arguments. With --test-only it says whether a node of STUB_CPUS CPUs could do the job,
# and notes nothing. With STUB_RUN it also runs the script at once, as SLURM would some time, but
# for the task STUB_LOST of an array, which ends without having done anything.
SBATCH = """
import os, pathlib, subprocess, sys
cpus = [int(word.partition("=")[2]) for word in sys.argv if word.startswith("--cpus-per-task=")]
if "--test-only" in sys.argv:
    if "--partition=nope" in sys.argv:
        sys.exit("allocation failure: Invalid partition name specified")
    if cpus and cpus[-1] > int(os.environ.get("STUB_CPUS", 8)):
        sys.exit("allocation failure: Requested node configuration is not available")
    sys.exit(0)
notes = pathlib.Path(os.environ["STUB_NOTES"])
number = 100 + len(list(notes.glob("sbatch-*")))
note(f"sbatch-{number}")
print(f"{number};cluster")
if os.environ.get("STUB_FAILS") == str(number):
    sys.exit("sbatch: error: no such partition")
options = [word for word in sys.argv[1:] if word.startswith("--")]
first = next(i for i, word in enumerate(sys.argv) if i and not word.startswith("-"))
array = [word.removeprefix("--array=") for word in options if word.startswith("--array=")]
tasks = []
for span in array[0].split(",") if array else []:
    a, _, b = span.partition("-")
    tasks += range(int(a), int(b or a) + 1)
for task in tasks or [""]:
    if "STUB_RUN" not in os.environ or str(task) == os.environ.get("STUB_LOST"):
        continue
    env = {**os.environ, "SLURM_JOB_ID": str(number), "SLURM_CPUS_PER_TASK": "2"}
    if array:
        env |= {"SLURM_ARRAY_TASK_ID": str(task), "SLURM_ARRAY_TASK_COUNT": str(len(tasks))}
    with open(f"job-{number}.log", "ab") as log:
        subprocess.run(["bash", *sys.argv[first:]], env=env, stdout=log, stderr=log)
"""
# Runs its command once, as on one node.
SRUN = """
import os, sys
note("srun")
command = [word for word in sys.argv[1:] if not word.startswith("--kill")]
os.execvp(command[0], command)
"""
SCONTROL = 'print("node7\\nnode8")'
# In place of the Python that the scripts call.
PYTHON = """
import os, sys
note("python-" + sys.argv[2])
if sys.argv[2] == "packer":
    print("/dev/shm/copy")
"""
NOTE = """#!{python}
def note(name):
    import json, os, sys
    with open(os.path.join(os.environ["STUB_NOTES"], name + ".json"), "x") as file:
        json.dump({{"arguments": sys.argv[1:], "environment": dict(os.environ)}}, file)
"""


class Cluster:
    """A working directory, and stubs that note how they are called from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work dir"
        self.notes = folder / "notes"
        self.bin = folder / "bin"
        for made in (self.folder, self.notes, self.bin):
            made.mkdir()
        stubs = {"sbatch": SBATCH, "srun": SRUN, "scontrol": SCONTROL, "stub-python": PYTHON}
        for name, code in stubs.items():
            (self.bin / name).write_text(NOTE.format(python=sys.executable) + code)
            (self.bin / name).chmod(0o755)

    def environment(self, **variables: str) -> dict[str, str]:
        """Ours without packer's and SLURM's variables, and with the stubs first in PATH."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PACKER_", "SLURM_"))}
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        own = {"PATH": path, "STUB_NOTES": str(self.notes), "PACKER_PYTHON": sys.executable}
        return clean | own | variables

    def bash(self, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script (or `-c`, a command) in the working directory."""
        return subprocess.run(
            ["bash", *map(str, words)],
            cwd=self.folder, env=self.environment(**variables),
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip

    def called(self, name: str) -> dict[str, Any]:
        """Arguments and environment of a call; each name is called once."""
        found: dict[str, Any] = json.loads((self.notes / f"{name}.json").read_text())
        return found


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """No SLURM at all, but its commands."""
    return Cluster(tmp_path)
