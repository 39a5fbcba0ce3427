"""Check the levels of CONTRIBUTING.md and the rules of the code, by walks over syntax trees.

Levels are read from CONTRIBUTING.md itself: a new top-level module needs a place in its table, a
new file in a room does not.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PACKER = ROOT / "packer"

#: Third-party library → modules (or rooms) that may import it.
OWNERS: Mapping[str, tuple[str, ...]] = {
    "numpy": ("packer",),
    "yaml": ("packer.settings.yamlfile", "packer.cli"),
    "click": ("packer.cli",),
    "joblib": ("packer.packing.workers.processes",),
    "dask": ("packer.packing.cluster.scheduler",),
    "distributed": ("packer.packing.cluster.scheduler",),
    "lmdb": ("packer.formats.lmdb",),
    "h5py": ("packer.formats.hdf5",),
    "PIL": ("packer.imaging", "packer.codecs", "packer.sample"),
    "cv2": ("packer.imaging", "packer.codecs"),
    "simplejpeg": ("packer.imaging", "packer.codecs", "packer.sample"),
    "torch": ("packer.reader",),
    "pytest": ("packer.testing",),
}
#: Libraries that a base install lacks: only their owners may import them at import time; all other
#: modules import the owners inside functions. (A base install has simplejpeg.)
OPTIONAL = ("joblib", "distributed", "lmdb", "h5py", "PIL", "cv2", "torch", "pytest")

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 6
#: Signatures that users write down (design: reader and writer for code) and may be longer.
PUBLIC_SIGNATURES = (
    "BatchStream.__init__",
    "Loader.__init__",
    "PackWriter.__init__",
    "PackedDataset.__init__",
    "WindowSampler.__init__",
)
#: Words that do not describe what a module does.
BANNED_WORDS = ("helper", "util", "manager", "engine", "chunk", "blob", "misc", "common")
#: Where a command talks to its user and to its environment.
COMMANDS = ("packer.cli", "packer.__main__")
ENVIRONMENT_READERS = ("packer.reader.order.ranks",)


class Import(NamedTuple):
    """One imported module, where, and whether importing its importer leaves it alone."""

    module: str
    line: int
    lazy: bool


class Module(NamedTuple):
    """One module of packer, parsed."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def room(self) -> str:
        """First part of its name below packer: what CONTRIBUTING.md gives a level."""
        return self.name.split(".")[1] if "." in self.name else "packer"

    def where(self, line: int) -> str:
        return f"{self.path.relative_to(ROOT)}:{line}"

    def within(self, *places: str) -> bool:
        return any(self.name == place or self.name.startswith(place + ".") for place in places)


@cache
def modules() -> dict[str, Module]:
    found = {}
    for path in sorted(PACKER.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path, ast.parse(path.read_text()))
    return found


def imports(module: Module) -> Iterator[Import]:
    """Everything it imports, by full name; `from packer import index` is packer.pack.index."""
    if module.name != "packer":  # its names are for editors and for `__getattr__`
        yield from _imports(module.tree, lazy=False)


def _imports(node: ast.AST, lazy: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, lazy)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"line {child.lineno}: a relative import"
            base = child.module or ""
            for alias in child.names:
                full = f"{base}.{alias.name}"
                yield Import(full if full in modules() else base, child.lineno, lazy)
        else:
            later = isinstance(child, FUNCTIONS) or (
                isinstance(child, ast.If) and dotted(child.test) == "TYPE_CHECKING"
            )
            yield from _imports(child, lazy or later)


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def dotted(node: ast.AST) -> str:
    """ "os.environ" for such an attribute, "print" for such a name, "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return ""


@cache
def levels() -> dict[str, int]:
    """Level of each room, from the table in CONTRIBUTING.md."""
    found = {"packer": 0, "__main__": 6}
    for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines():
        row = re.match(r"\| L(\d) \|([^|]*)\|", line)
        if row:
            for room in re.findall(r"`(\w+)(?:\.py|/)`", row[2]):
                found[room] = int(row[1])
    return found


def level(name: str) -> int:
    """Of a module of packer; -1 for other libraries and for what has none (another test's job)."""
    return levels().get(modules()[name].room, -1) if name in modules() else -1


def cycles(edges: Mapping[str, set[str]]) -> list[str]:
    """Each cycle of a directed graph once, as text."""
    found: list[str] = []
    done: set[str] = set()

    def walk(node: str, trail: list[str]) -> None:
        if node in trail:
            found.append(" → ".join([*trail[trail.index(node) :], node]))
        elif node not in done:
            for following in sorted(edges.get(node, ())):
                walk(following, [*trail, node])
            done.add(node)

    for node in sorted(edges):
        walk(node, [])
    return found


def test_every_room_has_a_level() -> None:
    rooms = {module.room for module in modules().values()}
    assert rooms <= levels().keys(), "give it a place in CONTRIBUTING.md's table"
    assert levels().keys() - {"__main__"} <= rooms, "CONTRIBUTING.md names what is not there"


def test_imports_go_down() -> None:
    upward = [
        f"{module.where(found.line)} imports {found.module}"
        for module in modules().values()
        for found in imports(module)
        if level(found.module) > level(module.name) >= 0
    ]
    assert upward == []


def test_rooms_import_one_another_without_cycles() -> None:
    edges: dict[str, set[str]] = {}
    for module in modules().values():
        for found in imports(module):
            if found.module in modules() and modules()[found.module].room != module.room:
                edges.setdefault(module.room, set()).add(modules()[found.module].room)
    assert cycles(edges) == []


def test_modules_import_one_another_without_cycles() -> None:
    edges: dict[str, set[str]] = {}
    for module in modules().values():
        for found in imports(module):
            if found.module in modules() and not found.lazy:
                edges.setdefault(module.name, set()).add(found.module)
    assert cycles(edges) == []


def test_a_cycle_would_be_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a → b → c → a"]
    assert cycles({"a": {"b", "c"}, "b": {"c"}}) == []


def third_party() -> Iterator[tuple[Module, Import, str]]:
    for module in modules().values():
        for found in imports(module):
            top = found.module.split(".")[0]
            if top not in sys.stdlib_module_names and top != "packer":
                yield module, found, top


def test_third_party_libraries_have_owners() -> None:
    strangers = [
        f"{module.where(found.line)} imports {top}"
        for module, found, top in third_party()
        if not module.within(*OWNERS.get(top, ()))
    ]
    assert strangers == []


@pytest.mark.parametrize("library", OPTIONAL)
def test_optional_libraries_are_imported_lazily(library: str) -> None:
    """Follows imports to what cannot be imported without the library: nobody but its owners."""
    eager = {
        module.name: {found.module for found in imports(module) if not found.lazy}
        for module in modules().values()
    }
    needing = {
        name for name, found in eager.items() if library in {top.split(".")[0] for top in found}
    }
    while grown := {name for name, found in eager.items() if found & needing} - needing:
        needing |= grown
    assert {name for name in needing if not modules()[name].within(*OWNERS[library])} == set()


def library_nodes() -> Iterator[tuple[Module, ast.AST]]:
    for module in modules().values():
        if not module.within(*COMMANDS):
            for node in ast.walk(module.tree):
                yield module, node


def test_library_code_never_prints_or_exits() -> None:
    forbidden = {"print", "input", "exit", "quit", "breakpoint", "SystemExit"}
    forbidden |= {"sys.exit", "os._exit", "os.abort", "sys.stdout", "sys.stderr"}
    found = [
        f"{module.where(getattr(node, 'lineno', 0))}: {dotted(node)}"
        for module, node in library_nodes()
        if dotted(node) in forbidden
    ]
    assert found == []


def test_library_code_never_reads_the_environment() -> None:
    forbidden = {"os.environ", "os.environb", "os.getenv", "os.getenvb", "os.path.expandvars"}
    found = [
        f"{module.where(getattr(node, 'lineno', 0))}: {dotted(node)}"
        for module, node in library_nodes()
        if dotted(node) in forbidden and not module.within(*ENVIRONMENT_READERS)
    ]
    assert found == []


HANDED_OVER = ("packer.packing.workers.handover", "packer.types")


def test_nothing_that_is_read_can_run_code() -> None:
    """No pickle in any of its forms, no YAML loader that makes objects. What worker processes hand
    to the parent that forked them was never in a file.
    """
    forbidden = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
    found = [
        f"{module.where(found.line)} imports {found.module}"
        for module in modules().values()
        for found in imports(module)
        if found.module.split(".")[0] in forbidden and not module.within(*HANDED_OVER)
    ]
    calls = {"eval", "exec", "torch.load", "yaml.unsafe_load", "yaml.full_load"}
    calls |= {"yaml.Loader", "yaml.CLoader", "yaml.UnsafeLoader", "yaml.FullLoader"}
    for module in modules().values():
        for node in ast.walk(module.tree):
            if dotted(node) in calls:
                found.append(f"{module.where(getattr(node, 'lineno', 0))}: {dotted(node)}")
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                found.append(f"{module.where(node.lineno)}: allow_pickle (numpy's default is no)")
    assert found == []


def scripts() -> list[Path]:
    """Return all files below scripts/, without compiled ones."""
    files = (path for path in (ROOT / "scripts").rglob("*") if path.is_file())
    return [path for path in files if path.suffix != ".pyc"]


def test_files_are_short() -> None:
    paths = [*PACKER.rglob("*.py"), *scripts(), *(ROOT / "tests").rglob("*.py")]
    long = {
        str(path.relative_to(ROOT)): lines
        for path in paths
        if (lines := len(path.read_text().splitlines())) > MAX_FILE_LINES
    }
    assert long == {}


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """All functions with their qualified names."""
    for child in ast.iter_child_nodes(node):
        name = f"{prefix}.{child.name}" if hasattr(child, "name") and prefix else ""
        name = name or getattr(child, "name", prefix)
        if isinstance(child, ast.FunctionDef):
            yield name, child
        yield from functions(
            child, name if isinstance(child, (*FUNCTIONS, ast.ClassDef)) else prefix
        )


def test_functions_are_short() -> None:
    """At most 60 lines, without decorators and the docstring."""
    long = {}
    for module in modules().values():
        for name, function in functions(module.tree):
            body = function.body
            if ast.get_docstring(function) is not None and len(body) > 1:
                body = body[1:]
            signature = function.body[0].lineno - function.lineno
            lines = signature + (body[-1].end_lineno or 0) - body[0].lineno + 1
            if lines > MAX_FUNCTION_LINES:
                long[f"{module.where(function.lineno)} {name}"] = lines
    assert long == {}


def test_functions_take_few_parameters() -> None:
    """At most 6, self apart; commands get theirs from click, one an option."""
    many = {}
    for module in modules().values():
        if module.within(*COMMANDS):
            continue
        for name, function in functions(module.tree):
            arguments = function.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            count = sum(argument.arg not in ("self", "cls") for argument in every)
            if count > MAX_PARAMETERS and name not in PUBLIC_SIGNATURES:
                many[f"{module.where(function.lineno)} {name}"] = count
    assert many == {}


def test_modules_have_names_that_say_something() -> None:
    named = [*modules(), *(path.stem for path in scripts())]
    assert [name for name in named for word in BANNED_WORDS if word in name.lower()] == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        name
        for name, module in modules().items()
        if module.tree.body and not ast.get_docstring(module.tree)
    ]
    assert silent == []


def has_code(module: Module) -> bool:
    """Whether a function of it does something: data and protocols need no tests."""
    return any(
        not all(
            isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) for line in body
        )
        for _, function in functions(module.tree)
        if (body := function.body)
    )


def test_tests_mirror_modules() -> None:
    """packer/imaging/resize.py → tests/imaging/test_resize.py, for every module with code.

    In a room with a conformance suite that one tests every module of the room that it finds, so
    that a new codec or format stays one new file.
    """
    untested = []
    for name, module in modules().items():
        below = module.path.relative_to(PACKER)
        tests = ROOT / "tests" / below.parent
        private = below.stem.startswith("_")
        if below.stem.startswith("__") or not has_code(module):
            continue
        if (tests / "test_conformance.py").exists() and not private:
            continue
        test = tests / f"test_{below.stem.lstrip('_')}.py"
        if not test.exists():
            untested.append(f"{name}: no {test.relative_to(ROOT)}")
    assert untested == []
