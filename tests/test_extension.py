"""Optional C extensions."""

from __future__ import annotations

import sys

import pytest

from packer.extension import Extension


def test_a_module_that_is_there() -> None:
    extension = Extension("_struct")
    assert extension.is_built
    assert extension.module is sys.modules["_struct"]


def test_a_module_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not Extension("packer.imaging.native._nothing").is_built
    monkeypatch.setitem(sys.modules, "_struct", None)
    assert Extension("_struct").module is None


def test_it_is_imported_when_it_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    extension = Extension("_struct")
    monkeypatch.setitem(sys.modules, "_struct", None)
    assert not extension.is_built
