"""Fixture parameters have types: with `Any`, mypy --strict checks nothing that a test does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
#: Fixtures of libraries that may be missing or have no types.
UNTYPED = {"accelerate", "executor", "stateful_loader"}
#: Decorators that name parameters themselves: what a case has as its values may be anything.
CASES = ("pytest.mark.parametrize", "given")


def decorators(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    for decorator in function.decorator_list:
        name = decorator.func if isinstance(decorator, ast.Call) else decorator
        yield ast.unparse(name), decorator


def case_names(function: ast.FunctionDef) -> set[str]:
    """Parameters that a decorator fills."""
    found: set[str] = set()
    for name, decorator in decorators(function):
        if name in CASES and isinstance(decorator, ast.Call):
            found |= {keyword.arg for keyword in decorator.keywords if keyword.arg}
            if decorator.args and name != "given":
                names = ast.literal_eval(decorator.args[0])
                found |= set(names.split(",") if isinstance(names, str) else names)
    return found


def untyped(tree: ast.Module) -> Iterator[str]:
    """`test: parameter` for each fixture parameter that is `Any`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        is_fixture = any(name == "pytest.fixture" for name, _ in decorators(node))
        if not is_fixture and not node.name.startswith("test_"):
            continue
        for parameter in (*node.args.args, *node.args.kwonlyargs):
            annotation = parameter.annotation
            if parameter.arg in UNTYPED | case_names(node) or annotation is None:
                continue
            if ast.unparse(annotation) == "Any":
                yield f"{node.name}: {parameter.arg}"


def test_no_fixture_parameter_is_any() -> None:
    found = {
        str(path.relative_to(TESTS)): names
        for path in sorted(TESTS.rglob("*.py"))
        if (names := list(untyped(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert not found, "types of shared fixtures: tests/fixtures.py, tests/packs.py"


def test_the_rule_finds_one() -> None:
    text = (
        "@pytest.mark.parametrize('case', [1])\n"
        "def test_it(case: Any, build_pack: Any, tmp_path: Path): ...\n"
        "@given(drawn=data())\n"
        "def test_more(drawn: Any): ...\n"
        "@pytest.fixture\n"
        "def made(build: Any): ...\n"
        "def other(build: Any): ...\n"
    )
    assert list(untyped(ast.parse(text))) == ["test_it: build_pack", "made: build"]
