"""README and the pages under docs/: their size, their index and their links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "packer" / "formats" / "README.md",
    ]
)
#: Lines of README: one screen of a browser and a half.
README_LINES = 90
#: Figures of docs/why.svg, by the page whose tables have them.
FIGURE = {
    "performance.md": "6420 3027 2030 1468 1419 1556 759 706 654",
    "nfs.md": "86 3,837",
}
#: Folders to which the names of files in pages are relative.
BASES = (".", "packer", "tests", "scripts")
#: Parts of the names of files that are examples in docs/extending.md.
EXAMPLES = ("packer_toy/", "NAME")
_LINK = re.compile(r"!?\[[^]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def links(path: Path) -> Iterator[str]:
    """Targets of the internal links of a page, but for those in code."""
    for target in _LINK.findall(_CODE.sub("", path.read_text())):
        if "://" not in target:
            yield target


def anchors(path: Path) -> set[str]:
    """Names of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.is_relative_to(ROOT) and target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_links_are_found() -> None:
    assert sum(len(list(links(page))) for page in PAGES) > 100


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES


@pytest.mark.parametrize("index", ["docs", "docs/decisions"])
def test_every_page_is_in_its_index(index: str) -> None:
    folder = ROOT / index
    listed = set(links(folder / "README.md"))
    for page in folder.glob("*.md"):
        assert page.name == "README.md" or page.name in listed


def test_figures_are_those_of_the_tables() -> None:
    shown = re.findall(r">([\d,]+)</text>", (ROOT / "docs" / "why.svg").read_text())
    stated = []
    for page, figures in FIGURE.items():
        text = (ROOT / "docs" / page).read_text()
        for figure in figures.split():
            assert re.search(rf"\| {figure}\b", text), (page, figure)
            stated.append(int(figure.replace(",", "")))
    assert [int(figure.replace(",", "")) for figure in shown] == stated


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_are_named_exist(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for name in re.findall(r"`([\w./]+\.(?:py|c|h|sh|ya?ml))\b", text):
        if "/" in name[2:] and not any(part in name for part in EXAMPLES):
            assert any((ROOT / base / name).exists() for base in BASES), name
