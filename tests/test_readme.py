"""Every snippet of README and of the pages under docs/ is run, in one folder and in the order of
docs/README.md, first the commands and then the programs: what the pages say must work as it is
written.

A block after the comment `no-run: REASON` is not run: it installs, downloads, or needs other
machines or data. `NOT_RUN` counts these blocks, so that none is added without a decision.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import simplejpeg

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
INDEX = "docs/README.md"
_BLOCK = re.compile(
    r"^(?:<!-- no-run: (?P<reason>[^>\n]+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
#: Blocks that are not run, by document.
NOT_RUN = {
    "README.md": 2,
    "docs/cluster.md": 4,
    "docs/converting.md": 2,
    "docs/distributed.md": 1,
    "docs/nfs.md": 1,
    "docs/slurm.md": 4,
    "docs/staging.md": 1,
    "docs/start.md": 3,
}
#: Pages whose blocks are the files of a distribution, which another test installs.
OTHER_TEST = ("extending.md",)
#: Languages of blocks that hold no code: contents of files.
DATA = ("ini", "text", "toml", "yaml")
#: Runs Python snippets one after the other, each as a script of its own. One process for all of
#: them, as importing torch takes longer than most snippets.
_RUNNER = """
import json, sys
for document, line, _, text in json.load(sys.stdin):
    code = compile("\\n" * line + text, document, "exec")
    exec(code, {"__name__": "__main__"})
"""


class Snippet(NamedTuple):
    """A fenced block.

    Attributes:
        document: Path of its file, relative to the checkout.
        line: Line of its opening fence, from 1.
        language: console, python, or one of DATA.
        text: What is between the fences.
        reason: Why it is not run; "" if it is.
    """

    document: str
    line: int
    language: str
    text: str
    reason: str


def documents() -> list[str]:
    """README, the pages in the order of their index, and the other documents."""
    pages = re.findall(r"^\| \[[^]]+\]\((\w+\.md)\)", (ROOT / INDEX).read_text(), re.MULTILINE)
    others = [INDEX, "CONTRIBUTING.md", "CHANGELOG.md"]
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    return [
        "README.md",
        *(f"docs/{page}" for page in pages if page not in OTHER_TEST),
        *others,
        *(str(path.relative_to(ROOT)) for path in decisions),
    ]


def snippets() -> list[Snippet]:
    return [snippet for document in documents() for snippet in snippets_of(document)]


def snippets_of(document: str) -> list[Snippet]:
    text = (ROOT / document).read_text()
    return [
        Snippet(
            document=document,
            line=text.count("\n", 0, found.start("language")) + 1,
            language=found["language"],
            text=found["text"],
            reason=found["reason"] or "",
        )
        for found in _BLOCK.finditer(text)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's working directory; holds `flowers`, the user's own data set in the pages."""
    place = tmp_path_factory.mktemp("readme")
    random = np.random.default_rng(0)
    for name in ("daisy", "rose", "tulip"):
        (place / "flowers" / name).mkdir(parents=True)
        for number in range(3):
            pixels = random.integers(0, 256, (120, 160, 3), np.uint8)
            payload = simplejpeg.encode_jpeg(pixels, quality=90, colorspace="RGB")
            (place / "flowers" / name / f"{number}.jpg").write_bytes(payload)
    return place


def in_subshell(snippet: Snippet) -> str:
    """A console snippet as a script: its commands, in a shell that may change its folder, after a
    line on stderr that says which snippet follows.
    """
    lines = snippet.text.splitlines()
    continued = [False, *(line.endswith("\\") for line in lines)]
    kept = zip(lines, continued, strict=False)
    commands = [line.removeprefix("$ ") for line, more in kept if more or line[:2] == "$ "]
    return "\n".join([f"echo {snippet.document}:{snippet.line} >&2", "(", *commands, ")"])


def test_every_block_is_found_and_what_is_not_run_is_counted() -> None:
    languages = Counter(snippet.language for snippet in snippets() if not snippet.reason)
    assert languages["console"] >= 7 and languages["python"] >= 11
    assert languages.keys() <= {"console", "python", *DATA}
    for document in documents():
        assert (ROOT / document).read_text().count("\n```\n") == len(snippets_of(document))
    assert Counter(snippet.document for snippet in snippets() if snippet.reason) == NOT_RUN


def test_snippets_run_in_order(folder: Path) -> None:
    binaries = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    run = [snippet for snippet in snippets() if not snippet.reason]
    commands = [in_subshell(snippet) for snippet in run if snippet.language == "console"]
    programs = [tuple(snippet)[:4] for snippet in run if snippet.language == "python"]
    for command, given in (
        (["bash", "-eu", "-c", "\n".join(commands)], ""),
        ([sys.executable, "-W", "error", "-c", _RUNNER], json.dumps(programs)),
    ):
        done = subprocess.run(
            command,
            check=False,
            cwd=folder,
            env=environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
