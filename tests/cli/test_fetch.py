import hashlib
from pathlib import Path

from tests.fixtures import Run


def _recipe(tmp_path: Path, md5: str) -> None:
    (tmp_path / "mine.yaml").write_text(
        "title: Mine\nlicence: free\narchives:\n"
        f"  - name: mine.tar\n    urls: ['file://{tmp_path}/server.tar']\n    md5: '{md5}'\n"
    )


def test_the_path_on_stdout_and_the_rest_on_stderr(run: Run, tmp_path: Path) -> None:
    (tmp_path / "server.tar").write_bytes(b"x" * 5000)
    _recipe(tmp_path, hashlib.md5(b"x" * 5000).hexdigest())
    found = run("fetch", "./mine.yaml", "-o", "got")
    assert (found.returncode, found.stdout) == (0, f"{tmp_path}/got/mine.tar\n")
    assert "licence: free" in found.stderr
    assert (tmp_path / "got" / "mine.tar").read_bytes() == b"x" * 5000
    assert run("fetch", "./mine.yaml", PACKER_DATA=f"{tmp_path}/data").stdout == (
        f"{tmp_path}/data/mine/mine.tar\n"
    )


def test_a_wrong_checksum_is_exit_4_and_keeps_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "server.tar").write_bytes(b"x" * 5000)
    _recipe(tmp_path, "0" * 32)
    found = run("fetch", "./mine.yaml", "-o", "got")
    assert found.returncode == 4
    assert "Traceback" not in found.stderr
    assert not (tmp_path / "got" / "mine.tar").exists()


def test_nothing_to_download_says_how_to_get_it(run: Run) -> None:
    found = run("fetch", "imagenet")
    assert found.returncode == 2
    assert "imagenet" in found.stderr
    assert "did you mean 'caltech256'" in run("fetch", "caltech").stderr
