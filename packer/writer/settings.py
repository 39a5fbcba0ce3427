"""Settings that all runs of a PackWriter that make one pack must agree on."""

from __future__ import annotations

import dataclasses
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packer.errors import UsageError, suggestion
from packer.packing.planning.agreement import image_fields
from packer.settings.options import ConvertOptions
from packer.types import NO_LABEL, Field

ORDERS = ("written", "shuffled")
ON_ERROR = ("raise", "skip")
#: Field names become part of array names in the index, data set names in HDF5 and member names in
#: tar.
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
        seed: Seed of the order.
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
        """JSON values that a later run must match."""
        return {
            "options": self.affecting_bytes(),
            "classes": list(self.classes),
            "fields": dict(self.further),
        }

    def label(self, given: Any, key: str) -> int:
        """A class's index, given by itself or by the class's name.

        Raises:
            UsageError: The label is invalid.
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
            UsageError: A field is unknown or not bytes.
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
    order: str,
    seed: int,
) -> WriterSettings:
    """Check a PackWriter's arguments.

    Raises:
        UsageError: An argument is invalid or has no effect.
    """
    options = options or ConvertOptions()
    _refuse_unused(options)
    if seed and order != "shuffled":
        raise UsageError("seed without order='shuffled' has no effect")
    own = image_fields(options.codec)
    further = dict(fields or {})
    both = own + _further_fields(own, further)
    return WriterSettings(options, tuple(classes or ()), further, both, order, seed)


def check_choice(what: str, value: str, choices: Sequence[str]) -> None:
    """Raise UsageError if a value is not one of the choices."""
    if value not in choices:
        raise UsageError(f"unknown {what} {value!r}", suggestion(value, choices))


def _refuse_unused(options: ConvertOptions) -> None:
    for field in dataclasses.fields(options):
        if field.name not in _IN_USE and getattr(options, field.name) != field.default:
            own = ("order", "seed", "on_error", "max_skipped")
            raise UsageError(
                f"ConvertOptions({field.name}=…) has no effect in PackWriter",
                f"PackWriter(…, {field.name}=…)" if field.name in own else "leave it out",
            )


def _further_fields(taken: Sequence[Field], given: Mapping[str, str]) -> tuple[Field, ...]:
    """Further fields of bytes, checked against the existing fields."""
    names = {field.name for field in taken} | {"key"}  # streams yield the path under that name
    extensions = {field.extension for field in taken}
    for name, extension in given.items():
        if not _FIELD_NAME.fullmatch(name) or name in names:
            raise UsageError(
                f"invalid field name {name!r}", "a lower-case word, not image, label or key"
            )
        if not _FIELD_NAME.fullmatch(extension) or extension in extensions:
            raise UsageError(
                f"invalid extension {extension!r} of field {name!r}",
                f"a lower-case word, none of {', '.join(sorted(extensions))}",
            )
        extensions.add(extension)
    return tuple(Field(name, "bytes", extension) for name, extension in given.items())
