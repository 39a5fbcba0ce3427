"""Options of a conversion: frozen, and checked when they are made.

`ConvertOptions` is the one table of all options. The command line, config files and recipes, the
environment, the checks and docs/options.md are made from its fields' metadata.
"""

# ruff: noqa: RUF009 - `option` returns a dataclass field
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from packer.errors import ConfigError
from packer.registry import load
from packer.settings.kinds import Bytes, Choice, Flag, Named, Names, Part, Size, Text, Whole
from packer.settings.parsing import parse_colour, parse_size, parse_split
from packer.settings.table import PACK, PICTURES, RUN, Option, option, rows_of

ResizeMode = Literal["short", "long", "exact", "crop", "pad"]
#: Pillow's filters that make sense when shrinking, by Pillow's names.
Filter = Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"]
Subsampling = Literal["4:4:4", "4:2:2", "4:2:0"]
Order = Literal["shuffled", "sorted"]
OnError = Literal["skip", "fail"]

RESIZE_MODES: tuple[str, ...] = get_args(ResizeMode)
FILTERS: tuple[str, ...] = get_args(Filter)
SUBSAMPLINGS: tuple[str, ...] = get_args(Subsampling)
ORDERS: tuple[str, ...] = get_args(Order)
ON_ERROR: tuple[str, ...] = get_args(OnError)


def _without_resize(options: ConvertOptions) -> str:
    return "" if options.resize is not None else "without resize"


def _exact_decode(options: ConvertOptions) -> str:
    # The filter nearest never decodes at a reduced scale: the pixels would differ.
    nearest = "with filter nearest" if options.filter == "nearest" else ""
    return _without_resize(options) or nearest


def _codec_alone(name: str) -> Callable[[ConvertOptions], str]:
    def reason(options: ConvertOptions) -> str:
        used = load("codecs", options.codec).OPTIONS
        return "" if name in used else f"with codec {options.codec}"

    return reason


def _jobs(options: ConvertOptions) -> str:
    alone = options.backend == "sequential" and options.jobs != 1
    return "with backend sequential, which is one process" if alone else ""


def _check_split(text: str) -> None:
    if text != "none":
        parse_split(text)


@dataclass(frozen=True)
class ImageOptions:
    """How one picture becomes the stored one: the part of `ConvertOptions` that codecs use.

    Attributes:
        size: (width, height) in pixels, or None to keep the size. In the modes short and long both
            numbers are equal.
        mode: short: the shorter side becomes `size`; long: the longer side; exact: both sides,
            whatever the shape; crop: covers `size`, then the centre is cut; pad: fits inside
            `size`, the rest is filled with `background`.
        background: (red, green, blue), each 0 to 255.
    """

    size: tuple[int, int] | None = None
    mode: str = "short"
    filter: str = "bicubic"
    upscale: bool = True
    codec: str = "jpeg"
    quality: int = 90
    subsampling: str = "4:2:0"
    reencode: bool = False
    exact_decode: bool = False
    background: tuple[int, int, int] = (255, 255, 255)
    keep_damaged: bool = False

    @property
    def one_size(self) -> bool:
        """Whether every stored picture has the same size."""
        if self.size is None:
            return False
        return self.mode == "pad" or (self.mode in ("exact", "crop") and self.upscale)


@dataclass(frozen=True)
class ConvertOptions:
    """Options of `packer convert`, by name; invalid ones raise a ConfigError.

    `resize` also takes a number (256) or a pair (224, 320), and keeps it as text ("224x320").
    """

    # fmt: off
    resize: str | int | tuple[int, int] | None = option(
        None, PICTURES, Size(), "Size in pixels: 256, or WIDTHxHEIGHT.",
        shown="sizes stay", in_writer=True)
    resize_mode: ResizeMode = option(
        "short", PICTURES, Choice(lambda: RESIZE_MODES),
        "What gets the SIZE of --resize: the shorter side, the longer side, or both sides (exact:"
        " stretch; crop: cut the centre; pad: fill with --background).",
        in_writer=True, idle=_without_resize)
    filter: Filter = option(
        "bicubic", PICTURES, Choice(lambda: FILTERS), "Resampling filter of --resize.",
        in_writer=True, idle=_without_resize)
    upscale: bool = option(
        True, PICTURES, Flag(), "Enlarge pictures smaller than --resize.",
        in_writer=True, idle=_without_resize)
    codec: str = option(
        "jpeg", PICTURES, Named("codecs"), "Codec of the stored pictures.",
        in_writer=True)
    quality: int = option(
        90, PICTURES, Whole(1, 100), "Quality (jpeg, webp); webp 100 is lossless.",
        in_writer=True, idle=_codec_alone("quality"))
    subsampling: Subsampling = option(
        "4:2:0", PICTURES, Choice(lambda: SUBSAMPLINGS), "Chroma subsampling (jpeg).",
        in_writer=True, idle=_codec_alone("subsampling"))
    reencode: bool = option(
        False, PICTURES, Flag(), "Encode again even pictures that need no change.",
        in_writer=True, idle=_codec_alone("reencode"))
    exact_decode: bool = option(
        False, PICTURES, Flag(), "Never decode at a reduced scale before --resize.",
        in_writer=True, idle=_exact_decode)
    background: str = option(
        "white", PICTURES, Text("COLOUR", parse_colour),
        "Colour under transparent pixels and around padded pictures: white, black, #rrggbb.",
        in_writer=True)
    keep_damaged: bool = option(
        False, PICTURES, Flag(), "Store damaged or truncated JPEGs too, noted as damaged.")
    format: str = option(
        "tar", PACK, Named("formats"), "Shard file format.", in_writer=True)
    batch_size: int = option(
        128, PACK, Whole(1, 1_000_000), "Samples in an on-disk batch.", in_writer=True)
    shard_size: int = option(
        256_000_000, PACK, Bytes(), "Target shard size, with a unit: 256MB, 1GiB.",
        shown="256MB", in_writer=True)
    order: Order = option(
        "shuffled", PACK, Choice(lambda: ORDERS),
        "Order of samples in the pack; sorted: the order of torchvision's ImageFolder.")
    seed: int = option(
        0, PACK, Whole(), "Seed of --order shuffled.",
        idle=lambda options: "with order sorted" if options.order == "sorted" else "")
    split: str | None = option(
        None, PACK, Text("SPEC", _check_split),
        "Split by a hash of the path; parts sum to 1: train=0.8,val=0.2; or none.",
        shown="the source's own split")
    split_seed: int = option(
        0, PACK, Whole(), "Seed of --split.",
        idle=lambda options: "without a split" if options.split in (None, "none") else "")
    exclude_classes: tuple[str, ...] = option(
        (), PACK, Names(), "Leave out a class folder; repeatable.",
        word="exclude-class", shown="none")
    jobs: int | None = option(
        None, RUN, Whole(1, 4096), "Worker processes; with --backend dask: shards made at once.",
        short="j", shown="all cores", idle=_jobs)
    backend: str = option("loky", RUN, Named("backends"), "Worker backend.")
    scheduler: str | None = option(
        None, RUN, Text("tcp://HOST:PORT|FILE"),
        "Address of the scheduler of --backend dask, or the file that it wrote.",
        # A server at that address can run code here: the author of a recipe must not choose it.
        in_recipe=False,
        idle=lambda options: "without backend dask" if options.backend != "dask" else "")
    part: tuple[int, int] | None = option(
        None, RUN, Part(), "Make only the shards i with i mod N = K.", shown="all shards")
    merge_when_complete: bool = option(
        False, RUN, Flag(), "Merge the parts when the last one is complete.",
        idle=lambda options: "without a part" if options.part is None else "")
    on_error: OnError = option(
        "skip", RUN, Choice(lambda: ON_ERROR), "Action for a picture that cannot be stored.")
    max_skipped: int | None = option(
        None, RUN, Whole(0), "Stop (exit 3) if more pictures are skipped.",
        shown="1 %, at least 10",
        idle=lambda options: "with on-error fail" if options.on_error == "fail" else "")
    # fmt: on

    def __post_init__(self) -> None:
        for name, row in OPTIONS.items():
            object.__setattr__(self, name, row.check(getattr(self, name)))
        parse_size(self.resize, self.resize_mode)

    def require_one_size(self) -> None:
        """Check that the stored pictures have one size, if the codec needs it.

        Raises:
            ConfigError: They may have several.
        """
        if load("codecs", self.codec).ONE_SIZE and not self.image.one_size:
            raise ConfigError(
                f"codec {self.codec} needs pictures of one size",
                "add --resize WIDTHxHEIGHT with --resize-mode crop, pad or exact",
            )

    @property
    def image(self) -> ImageOptions:
        """The options that concern a single picture."""
        same = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(ImageOptions)
            if field.name not in ("size", "mode", "background")
        }
        size = parse_size(self.resize, self.resize_mode)
        background = parse_colour(self.background)
        return ImageOptions(size=size, mode=self.resize_mode, background=background, **same)

    def affecting_bytes(self) -> dict[str, Any]:
        """Return the options that decide what is in the pack, as JSON values, by name."""
        values = dataclasses.asdict(self)
        for name in RUN_OPTIONS:
            del values[name]
        values["exclude_classes"] = list(self.exclude_classes)
        if not self.keep_damaged:
            del values["keep_damaged"]  # packs made before this option existed do not have it
        return values


#: The table: options by their names.
OPTIONS: Final[Mapping[str, Option]] = rows_of(ConvertOptions)
#: Names of the options that may differ between the runs that make one pack.
RUN_OPTIONS = tuple(name for name, row in OPTIONS.items() if not row.affects_bytes)
ConvertOptions.__doc__ = f"{ConvertOptions.__doc__}\n    Attributes:\n" + "".join(
    f"        {name}: {row.help}\n" for name, row in OPTIONS.items()
)


def without_effect(options: ConvertOptions) -> dict[str, str]:
    """Return the options that have no effect beside the others, whatever their value.

    Returns:
        The reason by the option's name: {"quality": "with codec png"}.
    """
    reasons = {name: row.idle(options) for name, row in OPTIONS.items() if row.idle}
    return {name: reason for name, reason in reasons.items() if reason}


def warnings_of(options: ConvertOptions) -> list[str]:
    """Return a line for each option that differs from its default and has no effect."""
    return [
        f"{name.replace('_', ' ')} {value} has no effect {reason}"
        for name, reason in without_effect(options).items()
        if (value := getattr(options, name)) != OPTIONS[name].default
    ]
