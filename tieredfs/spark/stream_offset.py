"""Where a stream is: the offsets JSON of Spark's Kafka source, ``{"topic":{"0":23}}``.

Spark logs where each batch ends, and not where the first one begins. So the end of the
first batch says that too, under ``from``, of the partitions that did not begin at 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self, TypeAlias

from tieredfs.errors import InvalidArgumentError
from tieredfs.integers import MAX_INT64
from tieredfs.spark.by_partition import parse_number

__all__ = ["BEGINNING", "Offsets", "PartitionName", "StreamOffset"]

PartitionName: TypeAlias = tuple[str, int]
"""A topic's name and a partition's number."""

Offsets: TypeAlias = Mapping[PartitionName, int]
"""An offset of each partition."""

_FROM: Final = "from"
_FROM_BESIDE_A_TOPIC: Final = "from/"  # no topic has such a name


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Where a stream is.

    Attributes:
        offsets: The next offset of each partition.
        begun: Where each partition began, of those that did not begin at 0; only at the
            end of the first batch, otherwise empty.
        is_beginning: Whether the stream has not begun.
    """

    offsets: Offsets = field(default_factory=dict)
    begun: Offsets = field(default_factory=dict)
    is_beginning: bool = False

    @classmethod
    def parse(cls, document: object) -> Self:
        """Parse what Spark has logged, of this source or of its own Kafka source.

        Raises:
            InvalidArgumentError: It is something else.
        """
        if document == _BEGINNING:
            return cls(is_beginning=True)
        try:
            content = _object(document)
            begun: dict[PartitionName, int] = {}
            offsets: dict[PartitionName, int] = {}
            for name, value in content.items():
                if _has_topics(name, value):
                    begun = _offsets(_object(value))
                else:
                    offsets |= _offsets({name: value})
        except ValueError as error:
            msg = f'Expected e.g. {{"topicA":{{"0":23,"1":7}}}}, got {document}'
            raise InvalidArgumentError(msg) from error
        return cls(offsets, begun)

    def to_document(self) -> dict[str, object]:
        """Return what Spark logs as JSON."""
        if self.is_beginning:
            return dict(_BEGINNING)
        document = _by_topic(self.offsets)
        if self.begun:
            name = _FROM_BESIDE_A_TOPIC if _FROM in document else _FROM
            document[name] = _by_topic(self.begun)
        return document


_BEGINNING: Final[Mapping[str, object]] = {_FROM: {}}

BEGINNING: Final = StreamOffset(is_beginning=True)
"""Before the first batch; where that begins is looked up when it is planned."""


def _has_topics(name: str, value: object) -> bool:
    """Return whether a member says where topics began, and is not a topic."""
    return name == _FROM_BESIDE_A_TOPIC or (
        name == _FROM
        and isinstance(value, dict)
        and any(isinstance(one, dict) for one in value.values())
    )


def _offsets(topics: Mapping[str, object]) -> dict[PartitionName, int]:
    return {
        (topic, parse_number(partition)): _offset(offset)
        for topic, by_partition in topics.items()
        for partition, offset in _object(by_partition).items()
    }


def _offset(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(value)  # noqa: TRY004 - caught with other wrong values
    if not 0 <= value <= MAX_INT64:
        raise ValueError(value)
    return value


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(value)  # noqa: TRY004 - caught with other wrong values
    return value


def _by_topic(offsets: Offsets) -> dict[str, object]:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return dict(found)
