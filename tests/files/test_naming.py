"""Final names on file systems whose links do less than those of local disks: the system's own
calls, made to fail as AFS, FAT, old kernels and BeeGFS do. tests/faults/test_links.py has the same
for whole conversions.
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from packer.files import fsio, naming

Link = Callable[[Path, Path], None]

real_link = os.link


def _between_folders(source: Path, target: Path) -> None:
    if Path(source).parent != Path(target).parent:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    real_link(source, target)


def _symlink_between_folders(source: Path, target: Path) -> None:
    make = os.symlink if Path(source).parent != Path(target).parent else real_link
    make(source, target)


def _refusing(code: int) -> Link:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(code, os.strerror(code))

    return refuse


def _copy(source: Path, target: Path) -> None:
    Path(target).write_bytes(Path(source).read_bytes())


LINKS: dict[str, Link] = {
    "hard links": real_link,
    "EXDEV between folders": _between_folders,
    "EXDEV always": _refusing(errno.EXDEV),
    "EPERM": _refusing(errno.EPERM),
    "ENOSYS": _refusing(errno.ENOSYS),
    "EMLINK": _refusing(errno.EMLINK),
    "symbolic between folders": _symlink_between_folders,
    "symbolic always": os.symlink,
    "copies": _copy,
}


@pytest.fixture(autouse=True)
def no_way_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming, "_ways", {})


@pytest.fixture(params=LINKS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each kind of links in turn."""
    name: str = request.param
    monkeypatch.setattr(os, "link", LINKS[name])
    return name


@pytest.fixture(params=["exclusive rename", "plain rename"])
def rename(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With renameat2 and without it."""
    if request.param == "plain rename":

        def refuse(temp: Path, final: Path) -> None:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

        monkeypatch.setattr(naming, "_rename_exclusively", refuse)


@pytest.mark.usefixtures("rename")
@pytest.mark.parametrize("folder", ["work", "."])
def test_the_first_gets_the_name_whatever_links_are(tmp_path: Path, kind: str, folder: str) -> None:
    work, final = tmp_path / folder, tmp_path / "a"
    work.mkdir(exist_ok=True)
    for turn in range(2):  # the second time the way is known
        final.unlink(missing_ok=True)
        assert fsio.publish_new(work, final, b"one")
        assert not fsio.publish_new(work, final, b"two")
        assert final.read_bytes() == b"one", turn
        assert not final.is_symlink()
        fsio.publish_over(work, final, b"two")
        assert final.read_bytes() == b"two"
        assert not final.is_symlink()
        names = sorted(path.name for path in tmp_path.rglob("*"))
        assert names == (["a"] if folder == "." else ["a", "work"])


@pytest.mark.usefixtures("rename")
def test_a_name_that_is_a_broken_link_is_taken(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a").symlink_to("nowhere")
    assert not fsio.publish_new(tmp_path, tmp_path / "a", b"one")
    assert os.readlink(tmp_path / "a") == "nowhere"


def test_of_many_threads_one_gets_the_name(tmp_path: Path, kind: str) -> None:
    (tmp_path / "work").mkdir()
    start, won = threading.Barrier(8), []

    def publish(number: int) -> None:
        start.wait()
        if fsio.publish_new(tmp_path / "work", tmp_path / "a", b"%d" % number):
            won.append(number)

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert (tmp_path / "a").read_bytes() == b"%d" % won[0]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "work"]


def test_a_copy_takes_the_place_of_a_rename_that_cannot_leave_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on mergerfs."""
    replace = Path.replace

    def refuse(path: Path, target: Path) -> Path:
        if path.parent != target.parent:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", refuse)
    monkeypatch.setattr(os, "link", _between_folders)
    (tmp_path / "work").mkdir()
    assert fsio.publish_new(tmp_path / "work", tmp_path / "a", b"one")
    assert not fsio.publish_new(tmp_path / "work", tmp_path / "a", b"two")
    fsio.publish_over(tmp_path / "work", tmp_path / "a", b"three")
    assert (tmp_path / "a").read_bytes() == b"three"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "work"]


def test_a_real_failure_is_no_reason_for_another_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", _refusing(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        naming.give_name(fsio.write_temp(tmp_path, "a", b"one"), tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_system_without_an_exclusive_rename_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Without:
        def __init__(self, name: object, use_errno: bool) -> None: ...

    monkeypatch.setattr(ctypes, "CDLL", Without)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSYS)):
        naming._rename_exclusively(tmp_path / "a", tmp_path / "b")


def test_a_lock_that_is_released_in_that_moment_is_nobodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temp, final = fsio.write_temp(tmp_path, "a", b"one"), tmp_path / "b"
    final.touch()

    def release(source: Path, target: Path) -> None:
        try:
            real_link(source, target)
        finally:
            if target == final:
                final.unlink()

    monkeypatch.setattr(os, "link", release)
    assert not naming.give_name(temp, final)


def test_a_link_that_the_caller_asks_for_is_hard_or_not_there(tmp_path: Path, kind: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "a").write_bytes(b"one")
    made = naming.hard_link(tmp_path / "a", tmp_path / "there" / "b")
    assert made == (kind == "hard links")
    assert (tmp_path / "there" / "b").exists() == made


def test_a_link_that_the_caller_asks_for_replaces_nothing(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(name)
    with pytest.raises(FileExistsError):
        naming.hard_link(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_text() == "b"
    real_link(tmp_path / "a", tmp_path / "c")
    assert naming.hard_link(tmp_path / "a", tmp_path / "c"), "a call that was sent again"


@pytest.fixture
def child() -> Iterator[Callable[[Callable[[], bool]], bool]]:
    """Runs a question in a forked process."""

    def ask(question: Callable[[], bool]) -> bool:
        pid = os.fork()
        if pid == 0:
            os._exit(0 if question() else 1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    yield ask


def test_temp_files_know_their_process(
    tmp_path: Path, child: Callable[[Callable[[], bool]], bool]
) -> None:
    path = naming.temp_path(tmp_path, "train-000000.tar")
    assert naming.is_own_temp(path)
    assert not child(lambda: naming.is_own_temp(path))
    assert not naming.is_own_temp(tmp_path / "train-000000.tar")


def test_temp_names_differ_and_are_found_again(tmp_path: Path) -> None:
    paths = {naming.temp_path(tmp_path, "a") for _ in range(100)}
    assert len(paths) == 100
    for path in paths:
        path.touch()
    (tmp_path / "a.tmp").touch()  # somebody else's
    assert set(naming.temps_in(tmp_path)) == paths
