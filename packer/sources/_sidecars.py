"""Files beside the pictures that may hold labels which packer does not read.

What is looked at is only what a scan ignores, by extension and by name of file and folder; a
picture costs nothing here, and no file is opened.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from packer.types import Sidecars

#: Extension of DVC's pointer files.
DVC = b".dvc"
#: Extension of a picture's class number in WebDataset's layout.
CLS = b".cls"
#: Extensions of files that may hold what is known of the picture with the same name.
_OF_ONE_PICTURE = frozenset(
    b".txt .text .caption .tags .json .jsonl .xml .yaml .yml .csv .tsv .npy .npz .mat .pt .pkl"
    b" .pickle .label .labels .lab .pts .bbox .box".split()
)
#: Names of tables that Hugging Face's imagefolder reads.
_METADATA = frozenset((b"metadata.jsonl", b"metadata.csv", b"metadata.parquet"))
_TABLES = frozenset((b".csv", b".tsv", b".jsonl", b".parquet", b".arrow", b".feather"))
_LOOKED_AT = _OF_ONE_PICTURE | _TABLES
#: How names of COCO's files begin.
_COCO_NAMES = (b"instances", b"captions", b"person_keypoints", b"panoptic", b"_annotations")
#: Paths that are kept of each extension to compare with the pictures' (10 MB of them). Of more
#: files, the rest counts as those do.
_KEPT = 100_000


class SidecarMark(NamedTuple):
    """A moment of a scan: how many there were of each."""

    pointers: int
    numbers: int
    kept: dict[str | bytes, int]
    counts: dict[str | bytes, int]


class SidecarFinder:
    """Collects what may be labels while a scan goes on."""

    def __init__(self) -> None:
        #: DVC's pointer files.
        self.pointers: list[bytes] = []
        #: Files of one picture's class number.
        self.numbers: list[bytes] = []
        #: Paths by kind, of those known by their names, or by extension; and how many there are.
        self._kept: dict[str | bytes, list[bytes]] = {}
        self._counts: dict[str | bytes, int] = {}

    def look_at(self, path: bytes, extension: bytes) -> None:
        """Look at a file that is no candidate; its extension is given in lower case."""
        if extension == DVC:
            self.pointers.append(path)
        elif extension == CLS:
            self.numbers.append(path)
        elif extension in _LOOKED_AT:
            kind = _kind(path, extension) or extension
            self._counts[kind] = self._counts.get(kind, 0) + 1
            if len(kept := self._kept.setdefault(kind, [])) < _KEPT:
                kept.append(path)

    def mark(self) -> SidecarMark:
        """What has been found so far, for `forget_since`."""
        kept = {kind: len(paths) for kind, paths in self._kept.items()}
        return SidecarMark(len(self.pointers), len(self.numbers), kept, dict(self._counts))

    def forget_since(self, mark: SidecarMark) -> None:
        """Forget what was found since then."""
        del self.pointers[mark.pointers :]
        del self.numbers[mark.numbers :]
        self._kept = {kind: self._kept[kind][:count] for kind, count in mark.kept.items()}
        self._counts = mark.counts

    def found(self, pictures: Sequence[bytes]) -> Mapping[str, Sidecars]:
        """What was found, by kind: "beside .EXTENSION" (files with the name of a picture),
        "metadata", "yolo", "coco", "voc", "table", "dvc" (pointers to folders that are not there).

        Args:
            pictures: Paths of all candidates, sorted.
        """
        found: dict[str, Sidecars] = {}
        tables: list[bytes] = []
        for kind, paths in self._kept.items():
            if isinstance(kind, str):
                found[kind] = Sidecars(self._counts[kind], min(paths))
                continue
            fitting = [path for path in paths if _has_picture(path, pictures)]
            if fitting:
                beyond = self._counts[kind] - len(paths)
                found[f"beside {kind.decode()}"] = Sidecars(len(fitting) + beyond, min(fitting))
            elif kind in _TABLES:
                tables += paths
        folders = [path for path in self.pointers if _is_unfetched_folder(path, pictures)]
        for name, some in (("table", tables), ("dvc", folders)):
            if some:
                found[name] = Sidecars(len(some), min(some))
        return dict(sorted(found.items()))


def stem(path: bytes) -> bytes:
    """A path up to the first dot of its name: what WebDataset calls a sample's key."""
    dot = path.find(b".", path.rfind(b"/") + 1)
    return path if dot < 0 else path[:dot]


def _kind(path: bytes, extension: bytes) -> str:
    """Of files that are known by their names; "" of others."""
    *folders, name = path.lower().split(b"/")
    if name in _METADATA:
        return "metadata"
    if extension == b".txt" and b"labels" in folders:
        return "yolo"
    if extension == b".json" and (b"annotations" in folders or name.startswith(_COCO_NAMES)):
        return "coco"
    if extension == b".json" and name.endswith(b".coco.json"):
        return "coco"
    if extension == b".xml" and b"annotations" in folders:
        return "voc"
    return ""


def _has_picture(path: bytes, pictures: Sequence[bytes]) -> bool:
    """Whether a picture lies beside a file that has its name, but for the extension."""
    beginning = stem(path) + b"."
    place = bisect_left(pictures, beginning)
    return place < len(pictures) and pictures[place].startswith(beginning)


def _is_unfetched_folder(pointer: bytes, pictures: Sequence[bytes]) -> bool:
    """Whether DVC's pointer file is that of a folder in which no picture lies."""
    folder = pointer.removesuffix(DVC)
    inside = folder + b"/"
    place = bisect_left(pictures, inside)
    there = place < len(pictures) and pictures[place].startswith(inside)
    return b"." not in folder.rpartition(b"/")[2] and not there
