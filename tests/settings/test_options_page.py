"""docs/options.md is what docs/options.py makes of the table of options."""

from __future__ import annotations

import runpy
from pathlib import Path

from packer.settings.options import OPTIONS

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_page_is_made_from_the_table() -> None:
    page = runpy.run_path(str(DOCS / "options.py"))["page"]()
    assert (DOCS / "options.md").read_text() == page, "python docs/options.py > docs/options.md"


def test_each_option_has_a_row() -> None:
    text = (DOCS / "options.md").read_text()
    for row in OPTIONS.values():
        variable = f"PACKER_{row.word.replace('-', '_').upper()}"
        [line] = (line for line in text.splitlines() if line.startswith(f"| `--{row.word}` |"))
        assert f"| `{variable}` | `{row.word}` |" in line and row.help in line.replace("\\|", "|")
