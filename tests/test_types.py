import os
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packer.types import Encoded, Sample, display_path, display_text, native_text, path_bytes


@given(st.binary())
def test_a_displayed_path_turns_back(path: bytes) -> None:
    assert path_bytes(display_path(path)) == path
    assert display_text(os.fsdecode(path)) == display_path(path)
    assert os.fsencode(native_text(display_path(path))) == path


def test_names_are_the_same_text_in_every_locale() -> None:
    script = (
        "import sys; from packer.types import display_path, display_text, native_text, path_bytes\n"
        "print(sys.getfilesystemencoding(), ascii(display_text(sys.argv[1])),"
        " path_bytes(display_text(sys.argv[1])).hex(),"
        " ascii(native_text(display_text(sys.argv[1])) == sys.argv[1]))"
    )
    command = [sys.executable.encode(), b"-c", script.encode(), b"caf\xc3\xa9\xff"]
    other = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for locale, encoding in (({"LC_ALL": "C.UTF-8"}, "utf-8"), (other, "ascii")):
        env = {**os.environ, **locale}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        assert done.stdout == encoding + " 'caf\\xe9\\udcff' 636166c3a9ff True\n"


def test_samples_on_their_way_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Encoded(b"", 1, 1).width = 2  # type: ignore[misc]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_samples_survive_every_pickle_protocol(protocol: int) -> None:
    """Executors of other libraries choose their own: `concurrent.futures` uses the default, 4."""
    sample = Sample(3, b"a/1.jpg", 1, 5, 4, {"image": b"bytes", "view": memoryview(b"view")}, 2)
    again = pickle.loads(pickle.dumps(sample, protocol))
    assert again.slot == 3
    assert {name: bytes(data) for name, data in again.payloads.items()} == {
        "image": b"bytes",
        "view": b"view",
    }
