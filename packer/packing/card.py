"""README.md of a pack: for people, and in tar packs for Hugging Face's `datasets`.

The front matter of a tar pack is a dataset card (https://huggingface.co/docs/hub/datasets-cards):
without it, `load_dataset` takes every file of the folder for data.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import Template
from typing import Any

from packer.codecs import load_codec
from packer.escape import BACKSLASH, escape
from packer.formats import load_format
from packer.pack.manifest import Manifest
from packer.settings.yamlfile import dump_yaml
from packer.types import Field

NAME = "README.md"
#: `datasets` reads members of these extensions as text; other ones that it decodes (json, npy, …)
#: have an application's own structure.
_TEXT = ("txt", "text", "transcript")
_DECODED = (
    "cbor", "cls2", "id", "index", "inx", "jsn", "json", "mp", "msg", "npy", "npz", "pth", "tb",
    "ten",
)  # fmt: skip
#: `datasets` takes this name for all splits together.
_RESERVED = "all"

_PACKER = """
With packer, in a training script:

```python
from packer.reader import PackedDataset

dataset = PackedDataset(".", "$split", decode="numpy")  # "." is this folder
image, label = dataset[0]
```
"""


def card(manifest: Manifest) -> bytes:
    """The file's bytes; they depend on the manifest alone."""
    shards = load_format(manifest.format, manifest.libraries)
    front = f"---\n{_front_matter(manifest)}---\n" if shards.WEBDATASET else ""
    splits = "\n".join(
        f"| {name} | {split.samples} | {len(split.shards)} |"
        for name, split in manifest.splits.items()
    )
    text = f"""# {escape(manifest.name, keep=BACKSLASH)}

A pack of pictures in sequential shards with a batch-level index, made by packer
(`pip install packer-shards`).

| split | samples | shards |
|---|---|---|
{splits}
"""
    return (front + text + _reading(manifest)).encode()


def _reading(manifest: Manifest) -> str:
    """Snippets that read the first split that has samples; each runs in the pack's folder."""
    for name, split in manifest.splits.items():
        for shard in split.shards:
            if shard.samples:
                text = _PACKER + load_format(manifest.format, manifest.libraries).READING
                return Template(text).substitute(split=name, shard=shard.name)
    return ""


def _front_matter(manifest: Manifest) -> str:
    files = [
        {"split": f"{name}_" if name == _RESERVED else name, "path": f"{name}-*.tar"}
        for name, split in manifest.splits.items()
        if split.samples
    ]
    value: dict[str, Any] = {"configs": [{"config_name": "default", "data_files": files}]}
    features = _features(manifest)
    if features:
        value["dataset_info"] = {"features": features}
    return dump_yaml(value)


def _features(manifest: Manifest) -> list[dict[str, Any]]:
    """Columns for `datasets`, with class names; empty if it must detect the columns itself."""
    features = [_feature(field, manifest) for field in manifest.fields]
    if any(feature is None for feature in features):
        return []
    text = [{"name": name, "dtype": "string"} for name in ("__key__", "__url__")]
    return [*(feature for feature in features if feature), *text]


def _feature(field: Field, manifest: Manifest) -> dict[str, Any] | None:
    """One column; empty if no sample has it, None if its type is not known."""
    name = field.extension
    dtype: Any = "binary"
    if field.kind == "label":
        if not manifest.classes:
            return {}
        dtype = _label_type(manifest.classes)
    elif field.codec is not None:
        dtype = load_codec(field.codec, manifest.libraries).FEATURE
        if not isinstance(dtype, str):
            return {"name": name, **dtype}
    elif name in _TEXT:
        dtype = "string"
    elif name in _DECODED:
        return None
    return {"name": name, "dtype": dtype}


def _label_type(classes: Sequence[str]) -> Any:
    """Labels with names. Bytes that are no UTF-8 are escaped, as YAML must be valid Unicode."""
    names = {str(label): escape(name, keep=BACKSLASH) for label, name in enumerate(classes)}
    if len(set(names.values())) < len(names):
        return "int64"  # `datasets` refuses a name that comes twice
    return {"class_label": {"names": names}}
