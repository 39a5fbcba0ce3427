"""What is public: the names in docs/python.md are those in `__all__`, and no others."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

import packer

ROOT = Path(__file__).parent.parent
_NAME = re.compile(r"`(\w+)`")


def documented() -> dict[str, set[str]]:
    """Names by module, from the tables of docs/python.md."""
    found: dict[str, set[str]] = {}
    module = ""
    for line in (ROOT / "docs" / "python.md").read_text().splitlines():
        if heading := re.fullmatch(r"## `(packer[\w.]*)`", line):
            module = heading[1]
        elif line.startswith("## "):
            module = ""
        elif row := re.match(r"\| `([\w.]+)` \| (.*) \|", line):
            if module:
                found.setdefault(module, set()).add(row[1])
            else:
                found[row[1]] = set(_NAME.findall(row[2]))
    return found


PUBLIC = documented()
MODULES = sorted(PUBLIC)


def test_every_module_with_public_names_is_documented() -> None:
    with_all = {
        ".".join(("packer", *path.relative_to(ROOT / "packer").with_suffix("").parts)).removesuffix(
            ".__init__"
        )
        for path in (ROOT / "packer").rglob("*.py")
        if re.search(r"^__all__ = ", path.read_text(), re.MULTILINE)
    }
    assert with_all == set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_has_the_names_that_are_documented(name: str) -> None:
    module = importlib.import_module(name)
    assert set(module.__all__) == PUBLIC[name]
    assert sorted(set(module.__all__)) == sorted(module.__all__)
    for public in module.__all__:
        assert hasattr(module, public), public


@pytest.mark.parametrize("name", MODULES)
def test_public_classes_and_functions_have_docstrings(name: str) -> None:
    module = importlib.import_module(name)
    for public in module.__all__:
        value = getattr(module, public)
        if callable(value) and getattr(value, "__module__", "").startswith("packer"):
            assert value.__doc__, public


def test_no_public_name_is_underscored() -> None:
    names = {name for names in PUBLIC.values() for name in names}
    assert {name for name in names if name.startswith("_")} == {"__version__"}


def test_names_of_packer_are_those_of_their_modules() -> None:
    for name in set(packer.__all__) - {"__version__"}:
        home = importlib.import_module(packer._HOMES[name])
        assert getattr(packer, name) is getattr(home, name)
        assert name in home.__all__
    assert set(packer.__all__) <= set(dir(packer))
    with pytest.raises(AttributeError, match="has no attribute 'convertdataset'"):
        _ = packer.convertdataset  # type: ignore[attr-defined, unused-ignore]


def test_editors_see_what_is_imported_lazily() -> None:
    """The TYPE_CHECKING block imports each name from where `__getattr__` takes it."""
    tree = ast.parse((ROOT / "packer" / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == packer._HOMES


@pytest.mark.parametrize("statement", ["import packer", "from packer import errors"])
def test_importing_packer_imports_nothing_else(statement: str) -> None:
    script = (
        f"{statement}\nimport sys\n"
        "print([name for name in sys.modules if name.startswith('packer.') or name == 'numpy'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.decode().strip() in ("[]", "['packer.errors']")


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("convert_dataset", ["source", "out"]),
        ("merge_pack", ["out"]),
        ("verify_pack", ["root"]),
        ("stage_pack", ["root", "dest"]),
        ("fetch_dataset", ["recipe", "folder"]),
    ],
)
def test_functions_of_one_kind_look_alike(name: str, paths: list[str]) -> None:
    """Paths, then options; all else by keyword, `reporter` and `job_name` under these names."""
    function = getattr(packer, name)
    code = function.__code__
    given = code.co_varnames[: code.co_argcount]
    assert [argument for argument in given if argument != "options"] == paths
    by_name = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    assert "reporter" in by_name
    assert not {"job", "progress", "report"} & set(by_name)
    assert get_type_hints(function)["reporter"] == packer.Reporter | None
