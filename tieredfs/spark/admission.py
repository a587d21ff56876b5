"""How many offsets a batch of a stream has: Spark's Kafka source decides the same.

Source: Spark's KafkaMicroBatchStream, ``rateLimit`` and ``delayBatch``.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor
from typing import Final

from tieredfs.errors import InvalidArgumentError
from tieredfs.integers import MAX_INT64
from tieredfs.spark.given import GivenOptions, to_long
from tieredfs.spark.stream_offset import Offsets

__all__ = [
    "EVERYTHING_NEW",
    "Admission",
    "TriggerDelay",
    "check_limits",
    "parse_admission",
    "prorate",
]

_DURATION: Final = re.compile(r"(-?[0-9]+)([a-z]*)")
_MILLISECONDS: Final = {
    "": 1.0,
    "us": 0.001,
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_DEFAULT_DELAY_MS: Final = 15 * 60_000
_MIN: Final = "minOffsetsPerTrigger"
_MAX: Final = "maxOffsetsPerTrigger"


@dataclass(frozen=True, slots=True)
class Admission:
    """Limits of a batch.

    Attributes:
        min_offsets: A batch waits until so many offsets are new; None for any.
        max_offsets: How many offsets a batch has, about; None for all.
        max_delay_ms: How long a batch waits for ``min_offsets``, in milliseconds.
    """

    min_offsets: int | None = None
    max_offsets: int | None = None
    max_delay_ms: int = _DEFAULT_DELAY_MS


EVERYTHING_NEW: Final = Admission()


def check_limits(options: GivenOptions) -> None:
    """Check that the smallest number of offsets in a batch is not above the largest.

    Kafka's source checks this in batch queries, too, which otherwise ignore the limits
    of a stream's batches.

    Raises:
        InvalidArgumentError: It is above, or one of the two is no number.
    """
    if None in {options.text(_MIN), options.text(_MAX)}:
        return
    fewest, most = options.parse(_MIN, to_long), options.parse(_MAX, to_long)
    if fewest is not None and most is not None and fewest > most:
        raise InvalidArgumentError(
            f"The value of minOffsetPerTrigger({fewest}) is higher than the "
            f"maxOffsetsPerTrigger({most})."
        )


def parse_admission(options: GivenOptions) -> Admission:
    """Parse the limits of a stream's batches; ``check_limits`` compares them.

    Raises:
        InvalidArgumentError: A limit is no number, the largest number of offsets is
            below 0, or the delay has no unit that is known.
    """
    delay = options.parse("maxTriggerDelay", _milliseconds)
    return Admission(
        options.parse(_MIN, to_long),
        options.parse(_MAX, _limit),
        _DEFAULT_DELAY_MS if delay is None else delay,
    )


def prorate(limit: int, starts: Offsets, ends: Offsets) -> Offsets:
    """Return ends that leave a batch about so many offsets.

    Each partition has a share of the limit as large as its share of all that is new,
    and at least one offset, so that a small one does not starve.

    Args:
        limit: Number of offsets.
        starts: Where each partition of ``ends`` begins.
        ends: Where each ends (exclusive) without a limit.
    """
    sizes = {one: max(end - starts[one], 0) for one, end in ends.items()}
    total = sum(sizes.values())
    if not total:
        return ends
    found = {}
    for one, end in ends.items():
        share = limit * (sizes[one] / total)
        rounded = ceil(share) if share < 1 else floor(share)
        found[one] = min(end, starts[one] + rounded) if sizes[one] else end
    return found


class TriggerDelay:
    """Remembers when a batch was last made, to let the next one wait."""

    def __init__(self, admission: Admission, clock: Callable[[], float]) -> None:
        """Begin as if the last batch was long ago: the first one does not wait.

        Args:
            admission: How long, and for how many offsets.
            clock: Seconds since any moment.
        """
        self._admission = admission
        self._clock = clock
        self._last: float | None = None

    def waits(self, starts: Offsets, ends: Offsets) -> bool:
        """Return whether there is to be no batch yet.

        Args:
            starts: Where each partition begins; one that is new, at 0.
            ends: Where each ends (exclusive).
        """
        fewest = self._admission.min_offsets
        if fewest is None:
            return False
        now = self._clock()
        is_due = (
            self._last is None
            or (now - self._last) * 1000 >= self._admission.max_delay_ms
        )
        new = sum(end - starts.get(one, 0) for one, end in ends.items())
        if not is_due and new < fewest:
            return True
        self._last = now
        return False


def _limit(value: str) -> int:
    limit = to_long(value)
    if limit < 0:  # Kafka's source would take its offsets for lost ones
        raise InvalidArgumentError(f"{limit} offsets cannot be read")
    return limit


def _milliseconds(value: str) -> int:
    """Return a duration as Spark reads it, such as ``15m``; milliseconds by default."""
    found = _DURATION.fullmatch(value.strip().lower())
    if found is None or found[2] not in _MILLISECONDS:
        raise InvalidArgumentError(
            "Time must be specified as seconds (s), milliseconds (ms), microseconds "
            "(us), minutes (m or min), hour (h), or day (d). E.g. 50s, 100ms, or "
            f"250us. Failed to parse time string: {value}"
        )
    return min(int(int(found[1]) * _MILLISECONDS[found[2]]), MAX_INT64)
