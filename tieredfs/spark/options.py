"""The options of the source, parsed once into a value.

They are those of Spark's ``format("kafka")``, and so are the error messages, verbatim
where users may know them, with the name of the option.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from tieredfs.errors import InvalidArgumentError
from tieredfs.format.records.schema import COLUMNS
from tieredfs.integers import MAX_INT32
from tieredfs.log.read.scan import Isolation
from tieredfs.options import DEFAULTS, Options
from tieredfs.spark.admission import (
    EVERYTHING_NEW,
    Admission,
    check_limits,
    parse_admission,
)
from tieredfs.spark.by_partition import parse_partitions
from tieredfs.spark.given import GivenOptions, to_boolean, to_long, to_positive
from tieredfs.spark.pattern import TopicPattern
from tieredfs.spark.positions import (
    FROM_EARLIEST,
    UNTIL_LATEST,
    NoMatch,
    Position,
    check_order,
    parse_ending,
    parse_no_match,
    parse_starting,
    parse_stream_starting,
)
from tieredfs.spark.view_columns import VIEWS

__all__ = ["SourceOptions", "parse_options", "parse_stream_options"]

_STRATEGIES: Final = ("subscribe", "subscribepattern", "assign")
_REFUSED: Final = (
    "kafka.auto.offset.reset",
    "kafka.key.deserializer",
    "kafka.value.deserializer",
    "kafka.enable.auto.commit",
    "kafka.interceptor.classes",
)
_OF_RECORDS: Final = (
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "columns",
    "push_filters",
    "failOnDataLoss",
    "kafka.isolation.level",
)
"""Options about records, which would have no effect on a view."""

_CHECKED: Final[Mapping[str, Callable[[str], int]]] = {
    "kafkaConsumer.pollTimeoutMs": to_long,
    "fetchOffset.numRetries": partial(to_long, largest=MAX_INT32),
    "fetchOffset.retryIntervalMs": to_long,
}
"""Options for Kafka's client. Their values are ignored, but have to be numbers."""

_ENDINGS: Final = {
    "endingOffsets": "ending offset",
    "endingOffsetsByTimestamp": "ending timestamp",
}
_OF_BATCHES: Final = (*_ENDINGS, "endingTimestamp", "view")
"""Options that streaming queries refuse or ignore."""

_PERHAPS_UNREAD: Final = (*_OF_RECORDS, "paths")
"""Options that need not be read where others take precedence."""

_NO_PATH: Final = (
    "Option 'path' must be specified: the tier's URL, one in each frame. Of a table in "
    "its catalog Spark passes no option: use CREATE TEMPORARY VIEW, not CREATE TABLE"
)
_ONE_PATH: Final = (
    "load takes one path, the tier's URL; make a frame of each, and union"
)
_OWN: Final = "tieredfs."
"""Prefix of the fields of Options, as ``kafka.`` is that of the client's options."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The parsed options of a query.

    Attributes:
        path: The URL of the tier.
        view: What is read in place of records; None for records.
        topics: The topics subscribed to; None for another strategy.
        pattern: What finds the topics subscribed to; None for another strategy.
        assigned: The partitions assigned, by topic; None for another strategy.
        starting: Where each partition begins.
        ending: Where each partition ends (exclusive).
        no_match: Whether a start at a time fails if every record of a partition is
            older.
        isolation: Whether the records of aborted transactions are left out, and the
            latest offset is the last stable one.
        include_headers: Whether there is a headers column.
        fail_on_data_loss: Whether offsets that are gone fail the query.
        min_partitions: How many tasks there are at least, about; None for no minimum.
        max_records: How many offsets a task reads at most; None for no limit.
        admission: How many offsets a batch of a stream has.
        columns: The columns to read, in this order; None for those of Kafka's source.
        push_filters: Whether a query's filters choose what is read where Spark passes
            them: the frame is used once.
        storage_options: Options of fsspec, for the filesystem of the URL.
        plugin: The layout; None to detect it.
        plugin_options: Options of the layout.
        topic_id: Which of several topics of one name.
        cache_dir: Where indexes are cached, on each machine; None for the default, and
            empty for no cache.
        tuned: The sizes and limits of reads.
        misspelt: Options that are ignored, each with the name that it is almost.
    """

    path: str = field(repr=False)  # a URL may have a password
    view: str | None = None
    topics: tuple[str, ...] | None = None
    pattern: TopicPattern | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None
    starting: Position = FROM_EARLIEST
    ending: Position = UNTIL_LATEST
    no_match: NoMatch = "error"
    isolation: Isolation = "read_uncommitted"
    include_headers: bool = False
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records: int | None = None
    admission: Admission = EVERYTHING_NEW
    columns: tuple[str, ...] | None = None
    push_filters: bool = False
    storage_options: Mapping[str, object] = field(default_factory=dict, repr=False)
    plugin: str | None = None
    plugin_options: Mapping[str, object] = field(default_factory=dict, repr=False)
    topic_id: str | None = None
    cache_dir: str | None = None
    tuned: Options = DEFAULTS
    misspelt: Mapping[str, str] = field(default_factory=dict)

    @property
    def names_topics(self) -> bool:
        """Whether the topics are named, and neither found by a pattern nor all."""
        return self.topics is not None or self.assigned is not None

    def selects(self, topic: str, partition: int) -> bool:
        """Return whether a partition is among those that are to be read."""
        if self.topics is not None:
            return topic in self.topics
        if self.assigned is not None:
            return partition in self.assigned.get(topic, ())
        return self.pattern is None or self.pattern.matches(topic)


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Parse the options of a batch query; their names may be in any case.

    Raises:
        InvalidArgumentError: A value is wrong, or one that is needed is missing.
    """
    options = GivenOptions(given)
    _check_general(options)
    starting, ending = parse_starting(options), parse_ending(options)
    check_order(starting, ending)
    parsed = _parsed(options, starting, ending)
    return replace(parsed, misspelt=options.misspelt(_PERHAPS_UNREAD, _REFUSED))


def parse_stream_options(given: Mapping[str, str]) -> SourceOptions:
    """Parse the options of a streaming query; their names may be in any case.

    Raises:
        InvalidArgumentError: A value is wrong, one that is needed is missing, or one
            is only for batch queries.
    """
    options = GivenOptions(given)
    for name, noun in _ENDINGS.items():
        if name in options:
            msg = f"option '{name}': {noun} not valid in streaming queries"
            raise InvalidArgumentError(msg)
    if "view" in options:
        raise InvalidArgumentError("option 'view' is not valid in streaming queries")
    _check_general(options)
    starting = parse_stream_starting(options)
    parsed = _parsed(options, starting, UNTIL_LATEST)
    admission = parse_admission(options)
    misspelt = options.misspelt(_PERHAPS_UNREAD, (*_REFUSED, *_OF_BATCHES))
    return replace(parsed, admission=admission, misspelt=misspelt)


def _check_general(options: GivenOptions) -> None:
    """Check what is the same in batch and in streaming queries."""
    for name in _REFUSED:
        if name in options:
            raise InvalidArgumentError(f"Kafka option '{name}' is not supported")
    if "path" not in options:
        raise InvalidArgumentError(_ONE_PATH if "paths" in options else _NO_PATH)
    view = options.parse("view", _view)
    _check_strategy(options, is_view=view is not None)
    check_limits(options)
    for name, check in _CHECKED.items():
        options.parse(name, check)


def _parsed(
    options: GivenOptions, starting: Position, ending: Position
) -> SourceOptions:
    fails = options.parse("failOnDataLoss", to_boolean)
    return SourceOptions(
        path=options.text("path") or "",
        view=options.parse("view", _view),
        topics=options.parse("subscribe", _topics),
        pattern=options.parse("subscribePattern", _pattern),
        assigned=options.parse("assign", _assigned),
        starting=starting,
        ending=ending,
        no_match=options.parse("startingOffsetsByTimestampStrategy", parse_no_match)
        or "error",
        isolation=options.parse("kafka.isolation.level", _isolation)
        or "read_uncommitted",
        include_headers=options.parse("includeHeaders", to_boolean) or False,
        fail_on_data_loss=True if fails is None else fails,
        min_partitions=options.parse("minPartitions", _min_partitions),
        max_records=options.parse("maxRecordsPerPartition", _max_records),
        columns=options.parse("columns", _columns),
        push_filters=options.parse("push_filters", to_boolean) or False,
        storage_options=options.json_object("storage_options"),
        plugin=options.text("plugin"),
        plugin_options=options.json_object("plugin_options"),
        topic_id=options.text("topic_id"),
        cache_dir=options.text("cache_dir"),
        tuned=_tuned(options),
    )


def _check_strategy(options: GivenOptions, *, is_view: bool) -> None:
    chosen = [name for name in _STRATEGIES if name in options]
    if is_view:
        for name in _OF_RECORDS:
            if name in options:
                msg = f"option '{name}' is about records: a view has none"
                if name == "columns":
                    msg += "; choose its columns with a schema or with select"
                raise InvalidArgumentError(msg)
    if len(chosen) != 1 and not (is_view and not chosen):
        lead = "Only one" if chosen else "One"
        can = "can" if chosen else "must"
        raise InvalidArgumentError(
            f"{lead} of the following options {can} be specified for Kafka source: "
            f"{', '.join(_STRATEGIES)}. See the docs for more details."
        )


def _tuned(options: GivenOptions) -> Options:
    try:
        return Options.parse(options.with_prefix(_OWN))
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"options '{_OWN}*': {error}") from error


def _view(value: str) -> str:
    if value.lower() not in VIEWS:
        msg = f"there is no view '{value}'; there are {', '.join(VIEWS)}"
        raise InvalidArgumentError(msg)
    return value.lower()


def _topics(value: str) -> tuple[str, ...]:
    found = _names(value)
    if not found:
        raise InvalidArgumentError(
            "No topics to subscribe to as specified value for option 'subscribe' is "
            f"'{value}'"
        )
    return found


def _names(value: str) -> tuple[str, ...]:
    """Return the names of a list with commas, each once."""
    names = [name.strip() for name in value.split(",")]
    return tuple(dict.fromkeys(name for name in names if name))


def _pattern(value: str) -> TopicPattern:
    if not value.strip():
        raise InvalidArgumentError(
            "Pattern to subscribe is empty as specified value for option "
            f"'subscribePattern' is '{value}'"
        )
    return TopicPattern.parse(value.strip())


def _assigned(value: str) -> Mapping[str, tuple[int, ...]]:
    if not value.strip().startswith("{"):
        raise InvalidArgumentError(
            "No topicpartitions to assign as specified value for option 'assign' is "
            f"'{value}'"
        )
    return parse_partitions(value)


def _isolation(level: str) -> Isolation:
    match level:
        case "read_uncommitted" | "read_committed":
            return level
        case _:
            raise InvalidArgumentError(
                f"Invalid value {level} for configuration isolation.level: String must "
                "be one of: read_committed, read_uncommitted"
            )


def _min_partitions(value: str) -> int:
    return to_positive(value, "minPartitions", MAX_INT32)


def _max_records(value: str) -> int:
    return to_positive(value, "maxrecordsperpartition")


def _columns(value: str) -> tuple[str, ...]:
    names = _names(value)
    known = {name.lower(): name for name in COLUMNS}
    others = [name for name in names if name.lower() not in known]
    if others or not names:
        named = others[0] if others else value
        msg = f"there is no column '{named}'; there are {', '.join(COLUMNS)}"
        raise InvalidArgumentError(msg)
    return tuple(dict.fromkeys(known[name.lower()] for name in names))
