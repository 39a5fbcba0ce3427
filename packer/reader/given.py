"""The data set of streams, loaders and samplers, as users give it."""

from __future__ import annotations

import os
from typing import Any

from packer.errors import UsageError
from packer.reader.dataset import PackedDataset


def require_dataset(given: Any, owner: str) -> PackedDataset:
    """Return the argument if it is a PackedDataset.

    Args:
        given: What the user gave.
        owner: Name of the class that it was given to.

    Raises:
        UsageError: It is something else; the hint says what to write.
    """
    if isinstance(given, PackedDataset):
        return given
    kind = type(given).__name__
    if isinstance(given, str | os.PathLike):
        kind, hint = "a path", f"{owner}(PackedDataset({os.fspath(given)!r}, …), …)"
    elif hasattr(given, "indices") and hasattr(given, "dataset"):
        # A selection made here would miss later assignments to subset.dataset.transform.
        hint = "dataset.select(samples=subset.indices); transforms can be assigned to the selection"
    elif hasattr(given, "datasets"):
        hint = "MixedStream takes a BatchStream of each"
    else:
        hint = "`packer convert` makes a pack of an image folder, PackedDataset opens it"
    raise UsageError(f"{owner} takes a PackedDataset, not {kind}", hint)


def dataset_of(
    root: str | os.PathLike[str] | PackedDataset, options: dict[str, Any]
) -> PackedDataset:
    """The data set that Loader was given, or the one of the folder that it was given.

    Args:
        root: A PackedDataset, or a pack's folder.
        options: Arguments for the PackedDataset of a folder.

    Raises:
        UsageError: `root` is something else, or a PackedDataset was given together with options.
    """
    if isinstance(root, str | os.PathLike):
        return PackedDataset(root, **options)
    dataset = require_dataset(root, "Loader")
    if options:
        raise UsageError(
            f"{', '.join(options)} given beside a data set, which has its own",
            "give them to PackedDataset, or give Loader the pack's folder",
        )
    return dataset
