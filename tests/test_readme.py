"""The snippets of README and docs/cluster.md are run, in order, in one folder: what they say must
work as it is written.

A block after the comment `no-run` is left out: what installs, downloads or needs other data.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import simplejpeg

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
_BLOCK = re.compile(
    r"^(?P<mark><!-- no-run -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Snippet(NamedTuple):
    """A fenced block."""

    document: str
    line: int
    language: str
    text: str
    run: bool


DOCUMENTS = ("README.md", "docs/cluster.md")


def snippets() -> list[Snippet]:
    return [snippet for document in DOCUMENTS for snippet in snippets_of(document)]


def snippets_of(document: str) -> list[Snippet]:
    text = (ROOT / document).read_text()
    return [
        Snippet(
            document=document,
            line=text.count("\n", 0, found.start()) + 1,
            language=found["language"],
            text=found["text"],
            run=found["mark"] is None,
        )
        for found in _BLOCK.finditer(text)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a user works; holds the data set of their own that README speaks of."""
    place = tmp_path_factory.mktemp("readme")
    random = np.random.default_rng(0)
    for name in ("daisy", "rose", "tulip"):
        (place / "flowers" / name).mkdir(parents=True)
        for number in range(3):
            pixels = random.integers(0, 256, (120, 160, 3), np.uint8)
            payload = simplejpeg.encode_jpeg(pixels, quality=90, colorspace="RGB")
            (place / "flowers" / name / f"{number}.jpg").write_bytes(payload)
    return place


def command(snippet: Snippet) -> list[str]:
    """What runs a snippet: Python itself, or a shell that stops at the first failing line."""
    if snippet.language == "python":
        return [sys.executable, "-W", "error", "-c", snippet.text]
    lines = [line[2:] for line in snippet.text.splitlines() if line.startswith("$ ")]
    return ["bash", "-euc", "\n".join(lines)]


def test_snippets_are_found() -> None:
    assert {snippet.language for snippet in snippets()} == {"console", "python"}
    assert sum(snippet.run for snippet in snippets()) >= 8
    for document in DOCUMENTS:
        assert (ROOT / document).read_text().count("\n```\n") == len(snippets_of(document))


def test_snippets_run_in_order(folder: Path) -> None:
    binaries = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    for snippet in snippets():
        if not snippet.run:
            continue
        done = subprocess.run(
            command(snippet),
            check=False,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, (
            f"{snippet.document}:{snippet.line}\n{done.stdout}{done.stderr}"
        )
