"""The sizes and limits that a user can tune, each with its range and its unit."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Final, Self, get_type_hints

from tieredfs.errors import InvalidArgumentError
from tieredfs.integers import is_integer, to_integer

__all__ = [
    "DEFAULTS",
    "MAX_SINGLE_PUT_BYTES",
    "OptionRange",
    "Options",
    "option_ranges",
]

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30

MAX_SINGLE_PUT_BYTES: Final = 5000 * _MIB
"""Maximum bytes of an object that every store which takes parts accepts in one put."""

_NUMBER: Final = re.compile(
    r"(\d{1,18})(?:([KMG])(?:iB|B)?)?", re.ASCII | re.IGNORECASE
)
_POWERS: Final = {"K": _KIB, "M": _MIB, "G": _GIB}


@dataclass(frozen=True, slots=True)
class OptionRange:
    """The values that an option takes.

    Attributes:
        minimum: The smallest one.
        maximum: The largest one.
        unit: What is counted, in the plural.
    """

    minimum: int
    maximum: int
    unit: str = "bytes"

    def __str__(self) -> str:
        """Show both ends and the unit."""
        return f"{self.minimum} to {self.maximum} {self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The sizes and limits of reads and writes.

    They belong to an ``ObjectStore`` and to everything that is opened on it: storages,
    tiers, topics and scans, pickled ones too. An option that is None has the value that
    suits the store.

    Attributes:
        fetch_bytes: Bytes of each request for a log, 64 KiB to 1 GiB, when records are
            read or looked up; a log that is copied or verified whole has pieces of its
            own. A scan holds about nine times this much memory, and one batch. With
            ``order="fair"`` it holds one request, which has 4 MiB at most, as a turn,
            and from a store on this machine one request.
        output_batch_bytes: Maximum bytes of an Arrow batch, 64 KiB to 256 MiB; a larger
            record is a batch by itself. A batch is complete at about 3/8 of it, and has
            131,072 records at most.
        max_decompressed_bytes: Maximum bytes that a compressed batch of records may
            decompress to when it is read, 4 MiB to 2 GiB less 64 KiB: more is treated
            as damage or an attack.
        multipart_threshold_bytes: Maximum bytes of an object that is put in one
            request, 5 MiB to 5000 MiB; a larger one is uploaded in parts, where the
            store takes parts.
        part_bytes: Minimum bytes of a part, 5 MiB to 1 GiB, rounded up to whole MiB;
            parts are larger where an object would have too many. By default 8 MiB in
            S3, 16 MiB in Azure and 32 MiB in Google's storage.
        max_concurrent_parts: Maximum number of parts of an object that are uploaded
            concurrently, 1 to 64; each takes the memory of a part. By default 4 in S3
            and 8 in Azure. Google's storage takes one part after the other, always.
        max_concurrent_requests: Maximum number of concurrent requests of one call, such
            as for several ranges or deletions, and of the requests with which a topic
            is planned; 1 to 256. By default 16 in clouds, less in other stores, and 32
            for a plan. The store's client may have a limit of its own.
    """

    fetch_bytes: Annotated[int, OptionRange(64 * _KIB, _GIB)] = 8 * _MIB
    output_batch_bytes: Annotated[int, OptionRange(64 * _KIB, 256 * _MIB)] = 8 * _MIB
    # Small batches are decompressed together, up to 2 MiB of them. A column of an Arrow
    # batch has less than 2 GiB, in which decoding needs a few spare bytes.
    max_decompressed_bytes: Annotated[
        int, OptionRange(4 * _MIB, 2 * _GIB - 64 * _KIB)
    ] = 256 * _MIB
    # S3 refuses smaller parts, and larger objects in one request.
    multipart_threshold_bytes: Annotated[
        int, OptionRange(5 * _MIB, MAX_SINGLE_PUT_BYTES)
    ] = 64 * _MIB
    part_bytes: Annotated[int | None, OptionRange(5 * _MIB, _GIB)] = None
    max_concurrent_parts: Annotated[int | None, OptionRange(1, 64, "parts")] = None
    max_concurrent_requests: Annotated[int | None, OptionRange(1, 256, "requests")] = (
        None
    )

    def __post_init__(self) -> None:
        """Convert integers of other types, such as numpy's, and refuse other values.

        Raises:
            InvalidArgumentError: A value is not an integer, or out of its range; the
                message names the option, its range and its unit.
        """
        ranges = option_ranges()
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            allowed = ranges[field.name]
            number = to_integer(value, field.name) if is_integer(value) else -1
            if not allowed.minimum <= number <= allowed.maximum:
                raise _refused(field.name, value)
            object.__setattr__(self, field.name, number)

    @classmethod
    def parse(cls, texts: Mapping[str, str | int]) -> Self:
        """Return options from texts, as a command line and Spark have them.

        Args:
            texts: Values by name; a number of bytes may have a suffix, K, M or G: 8M is
                8,388,608. An integer is taken as it is.

        Raises:
            InvalidArgumentError: A name is unknown, or a value is not a number or out
                of its range; the message names the option, its range and its unit.
        """
        return cls(**{name: _parsed(name, text) for name, text in texts.items()})


@cache
def option_ranges() -> Mapping[str, OptionRange]:
    """Return the range of each option, in the order of the fields."""
    hints = get_type_hints(Options, include_extras=True)
    return {field.name: hints[field.name].__metadata__[0] for field in fields(Options)}


DEFAULTS: Final = Options()
"""The default options."""


def _parsed(name: str, text: str | int) -> int:
    ranges = option_ranges()
    if name not in ranges:
        near = get_close_matches(name, ranges, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        known = ", ".join(f"{each} ({allowed})" for each, allowed in ranges.items())
        msg = f"no option is called {name!r}{hint}; the options are {known}"
        raise InvalidArgumentError(msg)
    if not isinstance(text, str):
        return text  # checked with the other fields
    found = _NUMBER.fullmatch(text.strip())
    if found is None or (found[2] and ranges[name].unit != "bytes"):
        raise _refused(name, text)
    return int(found[1]) * _POWERS.get((found[2] or "").upper(), 1)


def _refused(name: str, value: object) -> InvalidArgumentError:
    allowed = option_ranges()[name]
    return InvalidArgumentError(f"option {name} is {value!r}: give {allowed}")
