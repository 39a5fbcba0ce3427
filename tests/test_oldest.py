"""The oldest versions that setup.cfg allows, as CI installs them."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts" / "oldest.py"


def test_each_library_that_a_user_needs_has_an_oldest_version() -> None:
    command = [sys.executable, str(SCRIPT), str(ROOT / "setup.cfg")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {line.partition("==")[0] for line in printed.splitlines()}
    assert {"numpy", "opencv-python", "simplejpeg", "click", "joblib", "distributed"} <= names
    assert all(re.fullmatch(r"[\w.-]+==[\d.]+\.\*( ;.+)?", line) for line in printed.splitlines())


def test_a_library_without_a_bound_is_refused() -> None:
    constraints = runpy.run_path(str(SCRIPT))["constraints"]
    text = (ROOT / "setup.cfg").read_text(encoding="utf-8").replace("numpy >= 1.24", "numpy")
    with pytest.raises(ValueError, match="no oldest version in 'numpy'"):
        list(constraints(text))
