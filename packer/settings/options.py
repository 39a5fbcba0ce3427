"""What a user can ask of a conversion. Frozen, checked where they are made, free of any work."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from packer.errors import ConfigError, suggestion
from packer.registry import is_offered, load, names
from packer.settings.parsing import parse_colour, parse_size, parse_split

RESIZE_MODES = ("short", "long", "exact", "crop", "pad")
#: Pillow's filters that make sense when shrinking, by Pillow's names.
FILTERS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
SUBSAMPLINGS = ("4:4:4", "4:2:2", "4:2:0")
ORDERS = ("shuffled", "sorted")
ON_ERROR = ("skip", "fail")


@dataclass(frozen=True)
class ImageOptions:
    """How one picture becomes the stored one.

    Attributes:
        size: (width, height) in pixels, or None to keep the size. Modes short and long use
            one number: both entries are equal.
        mode: short: the shorter side becomes `size`; long: the longer side; exact: both sides,
            whatever the shape; crop: covers `size`, then the centre is cut; pad: fits inside
            `size`, the rest is filled with `background`.
        filter: Resampling filter by Pillow's name; always antialiased.
        upscale: Enlarge pictures that are smaller than `size`.
        codec: jpeg, png, webp, raw.
        quality: 1..100, for jpeg and webp (webp 100 = lossless).
        subsampling: Chroma subsampling of jpeg.
        reencode: Encode anew even a picture that needs no change.
        exact_decode: Never decode at a reduced DCT scale.
        background: RGB under transparent pixels and around padded pictures.
        keep_damaged: Store JPEGs whose pixel data are damaged or cut, as far as they decode.
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
    """Everything `packer convert` can be told about the work; the command's options by name.

    Attributes:
        resize: "256", "224x320" (width x height) or None to keep each picture's size.
        resize_mode: See `ImageOptions.mode`.
        filter: See `ImageOptions.filter`.
        upscale: See `ImageOptions.upscale`.
        codec: See `ImageOptions.codec`.
        quality: See `ImageOptions.quality`.
        subsampling: See `ImageOptions.subsampling`.
        reencode: See `ImageOptions.reencode`.
        exact_decode: See `ImageOptions.exact_decode`.
        background: "white", "black" or "#rrggbb".
        keep_damaged: See `ImageOptions.keep_damaged`.
        format: tar, lmdb, hdf5.
        batch_size: Samples in one on-disk batch.
        shard_size: Bytes that a shard should come near.
        order: shuffled (seeded) or sorted by path.
        seed: Of the shuffled order.
        split: "train=0.8,val=0.2", "none", or None for the source's or recipe's own.
        split_seed: Of the split.
        exclude_classes: Class folders to leave out, as if they were not there.
        jobs: Worker processes; None = the cores this process may use. With dask: most shards that
            are made at once; None = as many as the cluster has threads.
        backend: loky (processes), threading, sequential; dask: the machines of a cluster.
        scheduler: With dask: address of its scheduler, or the file that it wrote.
        part: (K, N): make only the shards i with i mod N = K.
        merge_when_complete: With `part`: join the parts if this was the last one.
        on_error: skip: write the picture to the ledger; fail: stop at the first one.
        max_skipped: How many samples may be skipped; None = max(1 % of the planned, 10).
    """

    resize: str | None = None
    resize_mode: str = "short"
    filter: str = "bicubic"
    upscale: bool = True
    codec: str = "jpeg"
    quality: int = 90
    subsampling: str = "4:2:0"
    reencode: bool = False
    exact_decode: bool = False
    background: str = "white"
    keep_damaged: bool = False
    format: str = "tar"
    batch_size: int = 128
    shard_size: int = 256_000_000
    order: str = "shuffled"
    seed: int = 0
    split: str | None = None
    split_seed: int = 0
    exclude_classes: tuple[str, ...] = ()
    jobs: int | None = None
    backend: str = "loky"
    scheduler: str | None = None
    part: tuple[int, int] | None = None
    merge_when_complete: bool = False
    on_error: str = "skip"
    max_skipped: int | None = None

    def __post_init__(self) -> None:
        _check_choice("resize mode", self.resize_mode, RESIZE_MODES)
        _check_choice("filter", self.filter, FILTERS)
        _check_offered("codec", self.codec)
        _check_choice("subsampling", self.subsampling, SUBSAMPLINGS)
        _check_offered("format", self.format)
        _check_choice("order", self.order, ORDERS)
        _check_choice("on-error", self.on_error, ON_ERROR)
        _check_offered("backend", self.backend)
        _check_range("quality", self.quality, 1, 100)
        _check_range("batch size", self.batch_size, 1, 1_000_000)
        _check_range("shard size", self.shard_size, 1, None)
        _check_range("jobs", self.jobs, 1, 4096)
        _check_range("max skipped", self.max_skipped, 0, None)
        if self.part is not None and not 0 <= self.part[0] < self.part[1]:
            raise ConfigError(f"invalid part {self.part[0]}/{self.part[1]}", "K/N with 0 <= K < N")
        if self.split not in (None, "none"):
            parse_split(self.split or "")

    def require_one_size(self) -> None:
        """Check that pictures of whatever size become pictures of one size, if the codec needs it.

        Raises:
            ConfigError: They do not.
        """
        if load("codecs", self.codec).ONE_SIZE and not self.image.one_size:
            raise ConfigError(
                f"codec {self.codec} needs pictures of one size",
                "add --resize WIDTHxHEIGHT with --resize-mode crop, pad or exact",
            )

    @property
    def image(self) -> ImageOptions:
        """The part that concerns one picture."""
        return ImageOptions(
            size=parse_size(self.resize, self.resize_mode),
            mode=self.resize_mode,
            filter=self.filter,
            upscale=self.upscale,
            codec=self.codec,
            quality=self.quality,
            subsampling=self.subsampling,
            reencode=self.reencode,
            exact_decode=self.exact_decode,
            background=parse_colour(self.background),
            keep_damaged=self.keep_damaged,
        )

    def affecting_bytes(self) -> dict[str, Any]:
        """The options that decide what is in the pack, as JSON values, by name."""
        values = dataclasses.asdict(self)
        for name in RUN_OPTIONS:
            del values[name]
        values["exclude_classes"] = list(self.exclude_classes)
        if not self.keep_damaged:
            del values["keep_damaged"]  # packs made before there was this option have no such name
        return values


#: Options that may differ between the runs that make one pack.
RUN_OPTIONS = (
    "jobs",
    "backend",
    "scheduler",
    "part",
    "merge_when_complete",
    "on_error",
    "max_skipped",
)


def without_effect(options: ConvertOptions) -> dict[str, str]:
    """The options that change nothing beside the others, whatever their value.

    Returns:
        Why, by the option's name: {"quality": "with codec png"}.
    """
    reasons = {name: why(options) for name, why in _WITHOUT_EFFECT.items()}
    return {name: reason for name, reason in reasons.items() if reason}


def warnings_of(options: ConvertOptions) -> list[str]:
    """A line an option that was set to another value than its default and changes nothing."""
    usual = ConvertOptions()
    return [
        f"{name.replace('_', ' ')} {value} has no effect {reason}"
        for name, reason in without_effect(options).items()
        if (value := getattr(options, name)) != getattr(usual, name)
    ]


def _resize_alone(options: ConvertOptions) -> str:
    return "" if options.resize is not None else "without resize"


def _exact_decode(options: ConvertOptions) -> str:
    # The filter nearest never decodes at a reduced scale: it would not get the same pixels.
    return _resize_alone(options) or ("with filter nearest" if options.filter == "nearest" else "")


def _codec_alone(name: str) -> Callable[[ConvertOptions], str]:
    def reason(options: ConvertOptions) -> str:
        used = load("codecs", options.codec).OPTIONS
        return "" if name in used else f"with codec {options.codec}"

    return reason


def _jobs(options: ConvertOptions) -> str:
    alone = options.backend == "sequential" and options.jobs != 1
    return "with backend sequential, which is one process" if alone else ""


#: Option → why it has no effect, "" where it has one. An option that is not here always has one, or
#: it depends on the pictures (`background`: is any of them transparent?).
_WITHOUT_EFFECT: Mapping[str, Callable[[ConvertOptions], str]] = {
    "resize_mode": _resize_alone,
    "filter": _resize_alone,
    "upscale": _resize_alone,
    "exact_decode": _exact_decode,
    "quality": _codec_alone("quality"),
    "subsampling": _codec_alone("subsampling"),
    "reencode": _codec_alone("reencode"),
    "seed": lambda options: "with order sorted" if options.order == "sorted" else "",
    "split_seed": lambda options: "without a split" if options.split in (None, "none") else "",
    "jobs": _jobs,
    "scheduler": lambda options: "" if options.backend == "dask" else "without backend dask",
    "merge_when_complete": lambda options: "" if options.part else "without a part",
    "max_skipped": lambda options: "with on-error fail" if options.on_error == "fail" else "",
}


def _check_choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"unknown {what} {value!r}", suggestion(value, choices))


def _check_offered(kind: str, value: str) -> None:
    if not is_offered(f"{kind}s", value):
        raise ConfigError(f"unknown {kind} {value!r}", suggestion(value, names(f"{kind}s")))


def _check_range(what: str, value: int | None, low: int, high: int | None) -> None:
    if value is not None and (value < low or (high is not None and value > high)):
        limits = f"{low} to {high}" if high is not None else f"at least {low}"
        raise ConfigError(f"{what} {value} is out of range", limits)
