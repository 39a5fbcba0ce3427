import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

Run = Callable[..., "subprocess.CompletedProcess[str]"]
MakeTree = Callable[..., Path]


@pytest.mark.parametrize("codec", ["jpeg", "raw"])
def test_cat_writes_a_file_that_other_programs_read(
    run: Run, make_tree: MakeTree, codec: str
) -> None:
    make_tree()
    options = ("--resize", "48", "--resize-mode", "crop", "--codec", codec, "--jobs", 1)
    pack = run("convert", "photos", *options).stdout.strip()
    key = "002.class1/002_0003.jpg"
    data = subprocess.run(
        [sys.executable, "-m", "packer", "cat", pack, key], capture_output=True, check=True
    ).stdout
    pixels = np.load(io.BytesIO(data)) if codec == "raw" else simplejpeg.decode_jpeg(data)
    assert pixels.shape == (48, 48, 3)
    wrong = run("cat", pack, "001.class0/002_0003.jpg")
    assert wrong.returncode == 2
    assert f"did you mean '{key}'?" in wrong.stderr
