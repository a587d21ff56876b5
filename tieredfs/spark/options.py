"""The options of the source, parsed once into a value.

They are those of Spark's ``format("kafka")``, and so are the error messages, verbatim
where users may know them. An option of Kafka's source that this one does not yet
support is an error, because ignoring it would change the result.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from tieredfs.errors import InvalidArgumentError, UnsupportedOperationError
from tieredfs.log.read.scan import Isolation
from tieredfs.options import DEFAULTS, Options

__all__ = ["EARLIEST", "LATEST", "Offsets", "SourceOptions", "parse_options"]

EARLIEST: Final = -2
LATEST: Final = -1

Offsets = Mapping[str, Mapping[int, int]]
"""An offset for each partition of each topic."""

_STRATEGIES: Final = ("subscribe", "subscribepattern", "assign")
_NOT_YET: Final = (
    "subscribepattern",
    "startingtimestamp",
    "endingtimestamp",
    "startingoffsetsbytimestamp",
    "endingoffsetsbytimestamp",
    "startingoffsetsbytimestampstrategy",
    "minpartitions",
    "maxrecordsperpartition",
)
_REFUSED: Final = (
    "kafka.auto.offset.reset",
    "kafka.key.deserializer",
    "kafka.value.deserializer",
    "kafka.enable.auto.commit",
    "kafka.interceptor.classes",
)
_OFFSETS_EXAMPLE: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_ASSIGN_EXAMPLE: Final = '{"topicA":[0,1],"topicB":[0,1]}'
_OWN: Final = "tieredfs."
"""Prefix of the fields of Options, as ``kafka.`` is that of the client's options."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The parsed options of a query.

    Attributes:
        path: The URL of the tier.
        topics: The topics subscribed to; None when partitions are assigned.
        assigned: The partitions assigned, by topic; None when topics are subscribed.
        starting: First offset of each partition; None for earliest everywhere.
        ending: End (exclusive) of each partition; None for latest everywhere.
        isolation: Whether the records of aborted transactions are left out, and the
            latest offset is the last stable one.
        include_headers: Whether there is a headers column.
        fail_on_data_loss: Whether offsets that are gone fail the query.
        storage_options: Options of fsspec, for the filesystem of the URL.
        plugin: The layout; None to detect it.
        plugin_options: Options of the layout.
        topic_id: Which of several topics of one name.
        cache_dir: Where indexes are cached, on each machine; None for the default, and
            empty for no cache.
        tuned: The sizes and limits of reads.
    """

    path: str
    topics: tuple[str, ...] | None
    assigned: Mapping[str, tuple[int, ...]] | None
    starting: Offsets | None
    ending: Offsets | None
    isolation: Isolation
    include_headers: bool
    fail_on_data_loss: bool
    storage_options: Mapping[str, object] = field(default_factory=dict, repr=False)
    plugin: str | None = None
    plugin_options: Mapping[str, object] = field(default_factory=dict, repr=False)
    topic_id: str | None = None
    cache_dir: str | None = None
    tuned: Options = DEFAULTS


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Parse the options of a batch query; their names may be in any case.

    Raises:
        InvalidArgumentError: A value is wrong, or one that is needed is missing.
        UnsupportedOperationError: Kafka's source knows the option, this one does not
            yet.
    """
    options = {name.lower(): value for name, value in given.items()}
    for name in _REFUSED:
        if name in options:
            raise InvalidArgumentError(f"Kafka option '{name}' is not supported")
    if "path" not in options:
        raise InvalidArgumentError("Option 'path' must be specified: the tier's URL")
    chosen = [name for name in _STRATEGIES if name in options]
    if len(chosen) != 1:
        lead = "Only one" if chosen else "One"
        can = "can" if chosen else "must"
        raise InvalidArgumentError(
            f"{lead} of the following options {can} be specified for Kafka source: "
            f"{', '.join(_STRATEGIES)}. See the docs for more details."
        )
    _refuse_what_comes_later(options)
    starting = _starting(options.get("startingoffsets"))
    ending = _ending(options.get("endingoffsets"))
    _check_order(starting or {}, ending or {})
    return SourceOptions(
        path=options["path"],
        topics=_topics(options["subscribe"]) if "subscribe" in options else None,
        assigned=_assigned(options["assign"]) if "assign" in options else None,
        starting=starting,
        ending=ending,
        isolation=_isolation(options.get("kafka.isolation.level", "read_uncommitted")),
        include_headers=_boolean(options.get("includeheaders", "false")),
        fail_on_data_loss=_boolean(options.get("failondataloss", "true")),
        storage_options=_object("storage_options", options),
        plugin=options.get("plugin"),
        plugin_options=_object("plugin_options", options),
        topic_id=options.get("topic_id"),
        cache_dir=options.get("cache_dir"),
        tuned=Options.parse(
            {
                name.removeprefix(_OWN): value
                for name, value in options.items()
                if name.startswith(_OWN)
            }
        ),
    )


def _refuse_what_comes_later(options: Mapping[str, str]) -> None:
    for name in _NOT_YET:
        if name in options:
            raise UnsupportedOperationError(f"option '{name}' is not supported yet")


def _isolation(level: str) -> Isolation:
    match level:
        case "read_uncommitted" | "read_committed":
            return level
        case _:
            raise InvalidArgumentError(
                f"Invalid value {level} for configuration isolation.level: String must "
                "be one of: read_committed, read_uncommitted"
            )


def _topics(value: str) -> tuple[str, ...]:
    names = [name.strip() for name in value.split(",")]
    found = tuple(dict.fromkeys(name for name in names if name))
    if not found:
        raise InvalidArgumentError(
            "No topics to subscribe to as specified value for option 'subscribe' is "
            f"'{value}'"
        )
    return found


def _assigned(value: str) -> Mapping[str, tuple[int, ...]]:
    if not value.strip().startswith("{"):
        raise InvalidArgumentError(
            "No topicpartitions to assign as specified value for option 'assign' is "
            f"'{value}'"
        )
    return _by_topic(
        value,
        _ASSIGN_EXAMPLE,
        lambda _, numbers: tuple(map(_number, _of_type(numbers, list))),
    )


def _starting(value: str | None) -> Offsets | None:
    word = ("earliest" if value is None else value).strip().lower()
    if word == "earliest":
        return None
    if word == "latest":
        raise InvalidArgumentError(
            "starting offset can't be latest for batch queries on Kafka"
        )
    offsets = _offsets(word if value is None else value)
    for topic, partition in _having(offsets, LATEST):
        raise InvalidArgumentError(
            f"startingOffsets for {topic}-{partition} can't be latest for batch "
            "queries on Kafka"
        )
    return offsets


def _ending(value: str | None) -> Offsets | None:
    word = ("latest" if value is None else value).strip().lower()
    if word == "latest":
        return None
    if word == "earliest":
        raise InvalidArgumentError(
            "ending offset can't be earliest for batch queries on Kafka"
        )
    offsets = _offsets(word if value is None else value)
    for topic, partition in _having(offsets, EARLIEST):
        raise InvalidArgumentError(
            f"ending offset for {topic}-{partition} can't be earliest for batch "
            "queries on Kafka"
        )
    return offsets


def _having(offsets: Offsets, wanted: int) -> list[tuple[str, int]]:
    return [
        (topic, partition)
        for topic, by_partition in offsets.items()
        for partition, offset in by_partition.items()
        if offset == wanted
    ]


def _check_order(starting: Offsets, ending: Offsets) -> None:
    for topic, by_partition in starting.items():
        for partition, start in by_partition.items():
            end = ending.get(topic, {}).get(partition, LATEST)
            if end >= 0 and start > end:
                raise InvalidArgumentError(
                    f"The specified start offset {start} is greater than the end "
                    f"offset {end} for topic {topic} partition {partition}."
                )


def _offsets(value: str) -> Offsets:
    return _by_topic(value, _OFFSETS_EXAMPLE, _offsets_of_topic)


def _offsets_of_topic(topic: str, content: object) -> Mapping[int, int]:
    found: dict[int, int] = {}
    for key, offset in _of_type(content, dict).items():
        partition = _partition(key)
        if partition in found:  # such as "0" and "00"
            raise _Twice(f"partition {partition} of topic {topic}")
        found[partition] = _number(offset)
    return found


def _by_topic(
    value: str, example: str, parse: Callable[[str, object], _T]
) -> dict[str, _T]:
    try:
        found = json.loads(value, object_pairs_hook=_without_repetition)
        return {
            topic: parse(topic, content)
            for topic, content in _of_type(found, dict).items()
        }
    except _Twice as error:
        raise InvalidArgumentError(f"{error} is named twice in {value}") from error
    except ValueError as error:
        raise InvalidArgumentError(f"Expected e.g. {example}, got {value}") from error


class _Twice(Exception):  # noqa: N818 - says what it is that is there twice
    """A topic or a partition is named more than once."""


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        name = next(name for name in names if names.count(name) > 1)
        raise _Twice(repr(name))
    return found


def _partition(key: str) -> int:
    if not _INTEGER.fullmatch(key):
        raise ValueError(key)
    return int(key)


def _of_type(value: object, kind: type[_T]) -> _T:
    if not isinstance(value, kind):
        raise ValueError(value)  # noqa: TRY004 - caught with what JSON raises
    return value


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(value)  # noqa: TRY004 - caught with what JSON raises
    return value


def _boolean(value: str) -> bool:
    word = value.lower()
    if word not in {"true", "false"}:
        raise InvalidArgumentError(f'For input string: "{value}"')
    return word == "true"


def _object(name: str, options: Mapping[str, str]) -> Mapping[str, object]:
    """Parse a JSON object; errors omit its text, as it may contain secrets."""
    try:
        parsed = json.loads(options.get(name, "{}"))
    except ValueError as error:
        raise InvalidArgumentError(f"option '{name}' is not JSON") from error
    if not isinstance(parsed, dict):
        raise InvalidArgumentError(f"option '{name}' is not a JSON object")
    return parsed
