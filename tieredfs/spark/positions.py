"""Where a query begins and ends, as it was asked for: offsets or times."""

from dataclasses import dataclass
from typing import Final, Literal

from tieredfs.errors import InvalidArgumentError
from tieredfs.spark.by_partition import Numbers, parse_numbers
from tieredfs.spark.given import GivenOptions, to_long

__all__ = [
    "EARLIEST",
    "FROM_EARLIEST",
    "FROM_LATEST",
    "LATEST",
    "UNTIL_LATEST",
    "NoMatch",
    "Position",
    "check_order",
    "parse_ending",
    "parse_no_match",
    "parse_starting",
    "parse_stream_starting",
]

EARLIEST: Final = -2
LATEST: Final = -1

NoMatch = Literal["error", "latest"]
"""Whether a query that starts at a time fails, or reads nothing, where all is older.

``error`` fails it if a partition has no record at or after the time; ``latest`` starts
at the end of such a partition.
"""

_STARTING: Final = "startingOffsets"
_ENDING: Final = "endingOffsets"
_OFFSETS_EXAMPLE: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMES_EXAMPLE: Final = (
    '{"topicA": {"0": 123456789, "1": 123456789}, '
    '"topicB": {"0": 123456789, "1": 123456789}}'
)


@dataclass(frozen=True, slots=True)
class Position:
    """Where each partition begins, or ends.

    Attributes:
        option: The option that said so, for errors.
        everywhere: The offset or time of every partition; None if each has its own.
        each: The offsets or times of the partitions; empty if they share one.
        is_time: Whether these are times, in milliseconds since 1970 UTC. As in Kafka a
            time of -1 is latest, and one of -2 earliest.
    """

    option: str
    everywhere: int | None
    each: Numbers
    is_time: bool

    @property
    def named(self) -> Numbers | None:
        """The offset or time of each partition; None if all partitions share one."""
        return self.each if self.everywhere is None else None

    def of(self, topic: str, partition: int) -> int:
        """Return the offset or the time of one partition, which is named."""
        if self.everywhere is not None:
            return self.everywhere
        return self.each[topic][partition]


FROM_EARLIEST: Final = Position(_STARTING, EARLIEST, {}, is_time=False)
FROM_LATEST: Final = Position(_STARTING, LATEST, {}, is_time=False)
UNTIL_LATEST: Final = Position(_ENDING, LATEST, {}, is_time=False)


def parse_starting(options: GivenOptions) -> Position:
    """Parse where a batch query begins.

    ``startingTimestamp`` takes precedence over ``startingOffsetsByTimestamp``, and that
    over ``startingOffsets``. As in Kafka's source, an option is not parsed if another
    one takes precedence over it.

    Raises:
        InvalidArgumentError: The option that takes precedence is invalid.
    """
    starting = _starting(options) or FROM_EARLIEST
    _refuse(starting, LATEST, "latest", of_all="starting offset", of_one=_STARTING)
    return starting


def parse_stream_starting(options: GivenOptions) -> Position:
    """Parse where a streaming query begins when it is run for the first time.

    Raises:
        InvalidArgumentError: As in ``parse_starting``.
    """
    return _starting(options) or FROM_LATEST


def parse_ending(options: GivenOptions) -> Position:
    """Parse where a batch query ends.

    ``endingTimestamp`` takes precedence over ``endingOffsetsByTimestamp``, and that
    over ``endingOffsets``.

    Raises:
        InvalidArgumentError: As in ``parse_starting``.
    """
    ending = (
        _time(options, "endingTimestamp")
        or _times(options, "endingOffsetsByTimestamp")
        or _offsets(options, _ENDING)
        or UNTIL_LATEST
    )
    noun = "ending offset"
    _refuse(ending, EARLIEST, "earliest", of_all=noun, of_one=noun)
    return ending


def parse_no_match(value: str) -> NoMatch:
    """Parse ``startingOffsetsByTimestampStrategy``, whose value may be in any case.

    Raises:
        InvalidArgumentError: There is no such strategy.
    """
    match value.lower():
        case "error" | "latest" as word:
            return word
        case _:
            raise InvalidArgumentError(f"No value found for '{value.upper()}'")


def check_order(starting: Position, ending: Position) -> None:
    """Check that no partition is asked to begin after its end.

    An offset cannot be compared with a time. As in Kafka's source, only offsets and
    times that are given for each partition are compared, not one time for all.

    Raises:
        InvalidArgumentError: A partition is asked to begin after its end.
    """
    if starting.is_time != ending.is_time:
        return
    noun = "timestamp" if starting.is_time else "offset"
    for topic, by_partition in starting.each.items():
        for partition, start in by_partition.items():
            end = ending.each.get(topic, {}).get(partition, LATEST)
            if end >= 0 and start > end:
                raise InvalidArgumentError(
                    f"The specified start {noun} {start} is greater than the end "
                    f"{noun} {end} for topic {topic} partition {partition}. Check "
                    f"{starting.option} and {ending.option}."
                )


def _time(options: GivenOptions, name: str) -> Position | None:
    return options.parse(
        name, lambda text: Position(name, _milliseconds(text.strip()), {}, is_time=True)
    )


def _milliseconds(text: str) -> int:
    try:
        time = to_long(text)
    except InvalidArgumentError as error:
        msg = f"Expected a single long value, got {text}"
        raise InvalidArgumentError(msg) from error
    return _known_time(time)


def _times(options: GivenOptions, name: str) -> Position | None:
    def parse(text: str) -> Position:
        each = parse_numbers(text.strip(), _TIMES_EXAMPLE)
        for by_partition in each.values():
            for time in by_partition.values():
                _known_time(time)
        return Position(name, None, each, is_time=True)

    return options.parse(name, parse)


def _known_time(time: int) -> int:
    if time < EARLIEST:  # Kafka has other meanings for some of them
        raise InvalidArgumentError(
            f"{time} is no time; give milliseconds since 1970, -1 for latest, or -2 "
            "for earliest"
        )
    return time


def _starting(options: GivenOptions) -> Position | None:
    return (
        _time(options, "startingTimestamp")
        or _times(options, "startingOffsetsByTimestamp")
        or _offsets(options, _STARTING)
    )


def _offsets(options: GivenOptions, name: str) -> Position | None:
    def parse(text: str) -> Position:
        everywhere = {"earliest": EARLIEST, "latest": LATEST}.get(text.strip().lower())
        each = {} if everywhere else parse_numbers(text, _OFFSETS_EXAMPLE)
        return Position(name, everywhere, each, is_time=False)

    return options.parse(name, parse)


def _refuse(
    position: Position, offset: int, word: str, *, of_all: str, of_one: str
) -> None:
    """Refuse an offset that a batch query cannot begin, or end, at."""
    if position.is_time:
        return
    if position.everywhere == offset:
        raise InvalidArgumentError(
            f"option '{position.option}': {of_all} can't be {word} for batch queries "
            "on Kafka"
        )
    for topic, by_partition in position.each.items():
        for partition, given in by_partition.items():
            if given == offset:
                raise InvalidArgumentError(
                    f"option '{position.option}': {of_one} for {topic}-{partition} "
                    f"can't be {word} for batch queries on Kafka"
                )
