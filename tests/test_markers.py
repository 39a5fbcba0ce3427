"""Markers: each is declared in setup.cfg, used by tests, and left out by scripts/test --quick."""

from __future__ import annotations

import ast
import configparser
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
#: Markers of pytest itself.
BUILTIN = {"parametrize", "skipif", "xfail", "filterwarnings", "usefixtures", "skip"}
#: Rooms whose files all have one marker.
ROOMS = {"faults": "faults", "nfs": "nfs", "slurm": "cluster", "fuzz": "slow"}


def declared() -> set[str]:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = config["tool:pytest"]["markers"].strip().splitlines()
    return {line.partition(":")[0] for line in lines}


@cache
def used(path: Path) -> set[str]:
    """Names behind `pytest.mark.` in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return {node.attr for node in found if ast.unparse(node.value) == "pytest.mark"} - BUILTIN


def files() -> list[Path]:
    return sorted(TESTS.rglob("test_*.py"))


def test_declared_markers_are_used_and_used_ones_declared() -> None:
    assert set().union(*map(used, files())) == declared()


def test_quick_leaves_out_all_of_them() -> None:
    script = (ROOT / "scripts" / "test").read_text(encoding="utf-8")
    [words] = re.findall(r'^ +left_out="(.*)"$', script, re.MULTILINE)
    assert set(words.split(" or ")) == declared()


@pytest.mark.parametrize("room", ROOMS)
def test_all_files_of_a_room_have_its_marker(room: str) -> None:
    found = {path.name: used(path) for path in (TESTS / room).rglob("test_*.py")}
    assert found
    assert set(map(frozenset, found.values())) == {frozenset({ROOMS[room]})}, found
