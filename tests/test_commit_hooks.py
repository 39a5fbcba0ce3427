""".pre-commit-config.yaml: the steps of scripts/check, from the project's own environment."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
#: A call of a tool, like "ruff format", behind `python" -m`.
_TOOL = re.compile(r'python" -m (ruff \w+|mypy)')


def test_hooks_run_the_tools_of_the_check() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"]]
    found = [tool for hook in hooks for tool in _TOOL.findall(hook["entry"])]
    assert found == _TOOL.findall((ROOT / "scripts" / "check").read_text(encoding="utf-8"))
    assert len(found) == len(hooks) == 3


def test_hooks_need_no_network() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert {repository["repo"] for repository in config["repos"]} == {"local"}
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"]]
    assert {hook["language"] for hook in hooks} == {"system"}
