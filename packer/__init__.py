"""Turn an image folder into sequential shards with a batch-level index, and train from them.

    import packer

    packer.convert_dataset("photos", "pack", packer.ConvertOptions(resize="256"))
    packer.verify_pack("pack")

Each name is imported when it is first used: importing this package imports nothing else. Packs are
read by `packer.reader`. docs/python.md lists everything that is public.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from packer.convert import ConvertOptions, ConvertResult, convert_dataset
    from packer.errors import PackerError
    from packer.fetch import fetch_dataset
    from packer.input import open_input, open_list
    from packer.merge import MergeResult, merge_pack
    from packer.reporting import Progress, Reporter
    from packer.stage import StageOptions, StageResult, stage_pack
    from packer.verify import VerifyOptions, VerifyResult, verify_pack
    from packer.writer import PackWriter

__all__ = [
    "ConvertOptions",
    "ConvertResult",
    "MergeResult",
    "PackWriter",
    "PackerError",
    "Progress",
    "Reporter",
    "StageOptions",
    "StageResult",
    "VerifyOptions",
    "VerifyResult",
    "__version__",
    "convert_dataset",
    "fetch_dataset",
    "merge_pack",
    "open_input",
    "open_list",
    "stage_pack",
    "verify_pack",
]

__version__ = "0.1.0"

_HOMES = {
    "ConvertOptions": "packer.convert",
    "ConvertResult": "packer.convert",
    "MergeResult": "packer.merge",
    "PackWriter": "packer.writer",
    "PackerError": "packer.errors",
    "Progress": "packer.reporting",
    "Reporter": "packer.reporting",
    "StageOptions": "packer.stage",
    "StageResult": "packer.stage",
    "VerifyOptions": "packer.verify",
    "VerifyResult": "packer.verify",
    "convert_dataset": "packer.convert",
    "fetch_dataset": "packer.fetch",
    "merge_pack": "packer.merge",
    "open_input": "packer.input",
    "open_list": "packer.input",
    "stage_pack": "packer.stage",
    "verify_pack": "packer.verify",
}


def __getattr__(name: str) -> Any:
    """Import a public name; without it, a submodule is not an attribute (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
