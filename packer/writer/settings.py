"""What all runs of a PackWriter that make one pack must agree on."""

from __future__ import annotations

import dataclasses
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from packer.arguments import check_choice, check_names
from packer.errors import UsageError, suggestion
from packer.packing.planning.agreement import image_fields
from packer.settings.options import ConvertOptions
from packer.types import NO_LABEL, Field

Order: TypeAlias = Literal["written", "shuffled"]
ORDERS: tuple[Order, ...] = get_args(Order)
OnError: TypeAlias = Literal["raise", "skip"]
ON_ERROR: tuple[OnError, ...] = get_args(OnError)
#: Becomes part of array names in the index, of data set names in HDF5, of member names in tar.
_FIELD_NAME = re.compile(r"[a-z][a-z0-9_]*")
#: Options of a conversion that have a meaning here; the others are about sources and jobs.
_IN_USE = (
    "resize",
    "resize_mode",
    "filter",
    "upscale",
    "codec",
    "quality",
    "subsampling",
    "reencode",
    "exact_decode",
    "background",
    "format",
    "batch_size",
    "shard_size",
)


@dataclass(frozen=True)
class WriterSettings:
    """Arguments of a PackWriter, checked.

    Attributes:
        options: How pictures are made and packed.
        classes: Class names.
        further: Extensions of further fields by name.
        fields: All fields.
        order: "written" or "shuffled".
        seed: Of the order.
    """

    options: ConvertOptions
    classes: tuple[str, ...]
    further: Mapping[str, str]
    fields: tuple[Field, ...]
    order: str
    seed: int

    def affecting_bytes(self) -> dict[str, Any]:
        """The options that decide what is in the pack, as JSON values, by name."""
        return {**self.options.affecting_bytes(), "order": self.order, "seed": self.seed}

    def to_json(self) -> dict[str, Any]:
        """What a later run is compared with."""
        return {
            "options": self.affecting_bytes(),
            "classes": list(self.classes),
            "fields": dict(self.further),
        }

    def label(self, given: Any, key: str) -> int:
        """A class's index, given by itself or by the class's name.

        Raises:
            UsageError: It is none.
        """
        if isinstance(given, str):
            if given not in self.classes:
                known = suggestion(given, self.classes) if self.classes else "PackWriter(classes=…)"
                raise UsageError(f"unknown class {given!r} of {key!r}", known)
            return self.classes.index(given)
        try:
            if "bool" in type(given).__name__ or "bool" in str(getattr(given, "dtype", "")):
                raise TypeError
            label = operator.index(given)
        except TypeError:
            raise UsageError(
                f"label {given!r} of {key!r} is {type(given).__name__}, not an integer or a name",
                "int(label), or leave it out where there is none",
            ) from None
        if label != NO_LABEL and not 0 <= label < len(self.classes):
            raise UsageError(f"label {label} of {key!r} is none of {len(self.classes)} classes")
        return label

    def payloads(self, given: Mapping[str, bytes], key: str) -> dict[str, bytes]:
        """Further fields of a sample, checked.

        Raises:
            UsageError: An unknown field, or one that is no bytes.
        """
        for name, value in given.items():
            if name not in self.further:
                raise UsageError(
                    f"unknown field {name!r} of {key!r}",
                    suggestion(name, self.further)
                    if self.further
                    else "name it in PackWriter(fields=…)",
                )
            if not isinstance(value, bytes | bytearray | memoryview):
                raise UsageError(
                    f"field {name!r} of {key!r} is {type(value).__name__}, not bytes",
                    "text: text.encode()",
                )
        return {name: bytes(value) for name, value in given.items()}


def settings_of(
    classes: Sequence[str] | None,
    options: ConvertOptions | None,
    fields: Mapping[str, str] | None,
    order: Order,
    seed: int,
) -> WriterSettings:
    """Check a PackWriter's arguments.

    Raises:
        UsageError: One that cannot be, or has no effect.
    """
    check_choice("order", order, ORDERS)
    check_names("classes", classes)
    options = options or ConvertOptions()
    _refuse_unused(options)
    if seed and order != "shuffled":
        raise UsageError("seed without order='shuffled' has no effect")
    own = image_fields(options.codec)
    further = dict(fields or {})
    both = own + _further_fields(own, further)
    return WriterSettings(options, tuple(classes or ()), further, both, order, seed)


def check_skipping(on_error: OnError, max_skipped: int | None) -> tuple[OnError, int | None]:
    """Check what a PackWriter does with pictures that cannot be stored.

    Raises:
        UsageError: An argument is invalid, or has no effect.
    """
    on_error = check_choice("on_error", on_error, ON_ERROR)
    if max_skipped is not None and on_error != "skip":
        raise UsageError("max_skipped without on_error='skip' has no effect")
    return on_error, max_skipped


def what_to_write(owner: str, name: str) -> str:
    """What to write instead of an argument that PackWriter does not have, in one line.

    Args:
        owner: "PackWriter" or "PackWriter.write".
        name: Name of the argument.
    """
    if owner.endswith(".write"):
        return f"fields={{{name!r}: …}} if it is a field of PackWriter(…, fields=…)"
    if name in _IN_USE:
        return f"PackWriter(…, options=ConvertOptions({name}=…)) takes it"
    return ""


def _refuse_unused(options: ConvertOptions) -> None:
    for field in dataclasses.fields(options):
        if field.name not in _IN_USE and getattr(options, field.name) != field.default:
            own = ("order", "seed", "on_error", "max_skipped")
            raise UsageError(
                f"ConvertOptions({field.name}=…) has no effect in PackWriter",
                f"PackWriter(…, {field.name}=…)" if field.name in own else "leave it out",
            )


def _further_fields(taken: Sequence[Field], given: Mapping[str, str]) -> tuple[Field, ...]:
    """Fields of bytes, checked against those there are."""
    names = {field.name for field in taken} | {"key"}  # streams yield the path under that name
    extensions = {field.extension for field in taken}
    for name, extension in given.items():
        if not _FIELD_NAME.fullmatch(name) or name in names:
            raise UsageError(
                f"{name!r} cannot name a field", "a lower-case word, not image, label or key"
            )
        if not _FIELD_NAME.fullmatch(extension) or extension in extensions:
            raise UsageError(
                f"extension {extension!r} of field {name!r} cannot be",
                f"a lower-case word, none of {', '.join(sorted(extensions))}",
            )
        extensions.add(extension)
    return tuple(Field(name, "bytes", extension) for name, extension in given.items())
