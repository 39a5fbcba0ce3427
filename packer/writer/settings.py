"""Settings that must be the same in all runs of a PackWriter that make one pack."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from packer.arguments import check_choice, check_names
from packer.errors import UsageError, suggestion
from packer.packing.planning.agreement import image_fields
from packer.settings.kinds import Flag, Names, Whole, wrong_type
from packer.settings.options import OPTIONS, ConvertOptions
from packer.types import NO_LABEL, Field
from packer.wording import count

Order: TypeAlias = Literal["written", "shuffled"]
ORDERS: tuple[Order, ...] = get_args(Order)
OnError: TypeAlias = Literal["raise", "skip"]
ON_ERROR: tuple[OnError, ...] = get_args(OnError)
#: Field names become part of array names in the index, data set names in HDF5 and member names in
#: tar.
_FIELD_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class WriterSettings:
    """Arguments of a PackWriter, checked.

    Attributes:
        options: Options for pictures, batches and shards.
        classes: Class names.
        further: Extensions of further fields by name.
        fields: All fields.
        order: "written" or "shuffled".
        seed: Seed of the shuffled order.
    """

    options: ConvertOptions
    classes: tuple[str, ...]
    further: Mapping[str, str]
    fields: tuple[Field, ...]
    order: str
    seed: int

    def affecting_bytes(self) -> dict[str, Any]:
        """Return the options that decide what is in the pack, as JSON values, by name."""
        return {**self.options.affecting_bytes(), "order": self.order, "seed": self.seed}

    def to_json(self) -> dict[str, Any]:
        """Return the settings that a later run must have too."""
        return {
            "options": self.affecting_bytes(),
            "classes": list(self.classes),
            "fields": dict(self.further),
        }

    def label(self, given: Any, key: str) -> int:
        """Return the index of a class that is given by its index or name.

        Raises:
            UsageError: The class does not exist.
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
            raise UsageError(
                f"label {label} of {key!r} is none of {count(len(self.classes), 'class')}"
            )
        return label

    def payloads(self, given: Mapping[str, bytes], key: str) -> dict[str, bytes]:
        """Check further fields of a sample.

        Raises:
            UsageError: A field is unknown, or its value is not bytes.
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
        UsageError: An argument is invalid or has no effect.
    """
    options = ConvertOptions() if options is None else options
    if not isinstance(options, ConvertOptions):
        raise wrong_type("options", options, "ConvertOptions(…)")
    _refuse_unused(options)
    seed = Whole().check("seed", seed)
    if seed and order != "shuffled":
        raise UsageError("seed without order='shuffled' has no effect")
    own = image_fields(options.codec)
    further = _extensions(fields)
    both = own + _further_fields(own, further)
    check_names("classes", classes)
    names: Any = () if classes is None else classes
    checked = Names().check("classes", tuple(names) if isinstance(names, Iterable) else names)
    return WriterSettings(options, checked, further, both, order, seed)


def check_run(order: str, on_error: str, max_skipped: int | None, *, resume: bool) -> None:
    """Check the arguments of a PackWriter that do not stand in `WriterSettings`, and the order.

    Raises:
        UsageError: An argument is invalid or has no effect.
    """
    check_choice("order", order, ORDERS)
    check_choice("on_error", on_error, ON_ERROR)
    Flag().check("resume", resume)
    if resume and order == "shuffled":
        raise UsageError(
            "order='shuffled' finishes nothing before the end, so there is nothing to resume",
            "leave out resume, or write in shuffled order yourself",
        )
    if max_skipped is not None:
        Whole(0).check("max_skipped", max_skipped)
        if on_error != "skip":
            raise UsageError("max_skipped without on_error='skip' has no effect")


def what_to_write(owner: str, name: str) -> str:
    """Say in one line what to write instead of an argument that PackWriter does not have.

    Args:
        owner: "PackWriter" or "PackWriter.write".
        name: Name of the argument.
    """
    if owner.endswith(".write"):
        return f"fields={{{name!r}: …}} if it is a field of PackWriter(…, fields=…)"
    row = OPTIONS.get(name)
    if row is not None and row.in_writer:
        return f"PackWriter(…, options=ConvertOptions({name}=…)) takes it"
    return ""


def _extensions(fields: Mapping[str, str] | None) -> dict[str, str]:
    if fields is None:
        return {}
    if not isinstance(fields, Mapping) or not all(
        isinstance(text, str) for pair in fields.items() for text in pair
    ):
        raise wrong_type("fields", fields, "extensions by name, such as {'caption': 'txt'}")
    return dict(fields)


def _refuse_unused(options: ConvertOptions) -> None:
    for name, option in OPTIONS.items():
        if not option.in_writer and getattr(options, name) != option.default:
            own = ("order", "seed", "on_error", "max_skipped")
            raise UsageError(
                f"ConvertOptions({name}=…) has no effect in PackWriter",
                f"PackWriter(…, {name}=…)" if name in own else "leave it out",
            )


def _further_fields(taken: Sequence[Field], given: Mapping[str, str]) -> tuple[Field, ...]:
    """Check names and extensions of further fields, and return the fields."""
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
