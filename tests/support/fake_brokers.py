"""Brokers in this process, with the two clients of confluent-kafka that ask them.

They hold logs with transactions, give what is visible of them, and say that an offset
is out of range as real brokers do. What happens meanwhile is a script: its next step is
taken whenever the consumer would wait.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from support.transactions import Step, TransactionalLog
from tieredfs.log.follow.brokers import Brokers

__all__ = ["TOPIC_ID", "FakeBrokers", "FakeMessage", "RecordedLog", "asked_instead"]

TOPIC_ID = "A" * 21 + "w"
_TOPIC = "t"


class RecordedLog(TransactionalLog):
    """A log that also knows the offsets of all its records, markers apart.

    Attributes:
        records: They, in order.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        """Write a log."""
        self.records: list[int] = []
        super().__init__(steps)

    def _write(self, count: int, producer: int, attributes: int) -> range:
        written = super()._write(count, producer, attributes)
        self.records += written
        return written


@dataclass(slots=True)
class FakeBrokers:
    """What the brokers hold, and what they are asked.

    Attributes:
        logs: The log of each partition.
        starts: The offset at which each begins.
        topic_id: The topic's id.
        answers: Whether questions are answered; else they fail as an unreachable broker
            lets them fail.
        idle: Is called when a consumer would wait.
        taken: How many messages a consumer is given together.
        errors: Errors that come before the next records.
        assigned: From where each partition was read, whenever that changed.
        is_closed: Whether the consumer was closed.
        stalls: How often a partition that is assigned gives nothing.
    """

    logs: dict[int, RecordedLog]
    starts: dict[int, int] = field(default_factory=dict)
    topic_id: str = TOPIC_ID
    answers: bool = True
    idle: Callable[[], object] = lambda: None
    taken: int = 500
    errors: list[KafkaError] = field(default_factory=list)
    assigned: list[tuple[int, int]] = field(default_factory=list)
    is_closed: bool = False
    stalls: int = 0

    def start(self, number: int) -> int:
        """Return where a partition begins."""
        return self.starts.get(number, 0)

    def visible(self, number: int, start: int, *, committed: bool) -> list[int]:
        """Return the offsets of the records that a consumer gets from an offset on."""
        log = self.logs[number]
        if committed:
            return log.visible(start, log.end)
        return [one for one in log.records if one >= start]


class FakeMessage:
    """As much of a Message as is used; only newer clients let one make theirs."""

    def __init__(
        self, number: int, offset: int, value: bytes, error: KafkaError | None = None
    ) -> None:
        self._number = number
        self._offset = offset
        self._value = value
        self._error = error

    def topic(self) -> str:
        """Return the topic."""
        return _TOPIC

    def partition(self) -> int:
        """Return the partition."""
        return self._number

    def offset(self) -> int:
        """Return the offset."""
        return self._offset

    def error(self) -> KafkaError | None:
        """Return the error that it is."""
        return self._error

    def timestamp(self) -> tuple[int, int]:
        """Return the type of the timestamp, and its milliseconds."""
        return 1, 1_000 + self._offset

    def headers(self) -> None:
        """Return no headers."""

    def key(self) -> None:
        """Return no key."""

    def value(self) -> bytes:
        """Return the value."""
        return self._value

    def __len__(self) -> int:
        """Return the bytes of the value."""
        return len(self._value)


class FakeConsumer:
    """As much of a Consumer as is used."""

    def __init__(self, brokers: FakeBrokers, *, committed: bool) -> None:
        self._brokers = brokers
        self._committed = committed
        self._positions: dict[int, int] = {}
        self._ended: dict[int, int] = {}

    def incremental_assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Read from there."""
        for one in partitions:
            assert one.partition not in self._positions
            self._positions[one.partition] = one.offset
            self._ended.pop(one.partition, None)
            self._brokers.assigned.append((one.partition, one.offset))
            if self._brokers.stalls:
                self._brokers.stalls -= 1
                self._positions[one.partition] = -1

    def incremental_unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Read no more."""
        for one in partitions:
            del self._positions[one.partition]

    def poll(self, timeout: float) -> FakeMessage | None:
        """Return the next message."""
        found = self.consume(1, timeout)
        return found[0] if found else None

    def consume(self, count: int, timeout: float) -> list[FakeMessage]:
        """Return the next messages."""
        found = self._next(min(count, self._brokers.taken))
        if not found and timeout > 0:
            self._brokers.idle()
        return found

    def close(self) -> None:
        """Remember it."""
        self._brokers.is_closed = True

    def _next(self, count: int) -> list[FakeMessage]:
        found: list[FakeMessage] = []
        while self._brokers.errors:
            found.append(_failed(-1, -1, self._brokers.errors.pop(0)))
        for number in list(self._positions):
            if len(found) >= count:
                break
            found += self._of(number, count - len(found))
        if found:  # the next time another partition comes first
            first = next(iter(self._positions), None)
            if first is not None:
                self._positions[first] = self._positions.pop(first)
        return found

    def _of(self, number: int, count: int) -> list[FakeMessage]:
        position, log = self._positions[number], self._brokers.logs[number]
        if position < 0:
            return []
        if not self._brokers.start(number) <= position <= log.end:
            self._positions[number] = -1
            code = KafkaError._AUTO_OFFSET_RESET
            return [_failed(number, position, KafkaError(code))]
        visible = self._brokers.visible(number, position, committed=self._committed)
        if visible:
            some = visible[:count]
            self._positions[number] = some[-1] + 1
            return [_message(number, offset) for offset in some]
        end = log.stable_offset if self._committed else log.end
        end = max(end, position)
        self._positions[number] = end
        if self._ended.get(number) == end:
            return []
        self._ended[number] = end
        return [_failed(number, end, KafkaError(KafkaError._PARTITION_EOF))]


class FakeAdmin:
    """As much of an AdminClient as is used."""

    def __init__(self, brokers: FakeBrokers) -> None:
        self._brokers = brokers

    def describe_topics(self, topics: Any, **_: object) -> dict[str, "Future[Any]"]:  # noqa: ANN401 - the client's own
        """Return the topic's description."""
        (name,) = topics.topic_names
        partitions = [SimpleNamespace(id=number) for number in self._brokers.logs]
        found = SimpleNamespace(topic_id=self._brokers.topic_id, partitions=partitions)
        return {name: self._answer(found)}

    def list_offsets(
        self, asked: Mapping[TopicPartition, OffsetSpec], **options: object
    ) -> dict[TopicPartition, "Future[Any]"]:
        """Return offsets."""
        return {
            at: self._answer(SimpleNamespace(offset=self._offset(at, wanted, options)))
            for at, wanted in asked.items()
        }

    def _offset(
        self, at: TopicPartition, wanted: OffsetSpec, options: Mapping[str, object]
    ) -> int:
        log = self._brokers.logs[at.partition]
        if wanted is OffsetSpec.earliest():  # type: ignore[no-untyped-call]
            return self._brokers.start(at.partition)
        if wanted is OffsetSpec.latest():  # type: ignore[no-untyped-call]
            is_committed = "READ_COMMITTED" in str(options["isolation_level"])
            return log.stable_offset if is_committed else log.end
        offset = wanted._value - 1_000
        return offset if offset < log.end else -1

    def _answer(self, value: object) -> "Future[Any]":
        found: Future[Any] = Future()
        if self._brokers.answers:
            found.set_result(value)
        else:
            found.set_exception(KafkaException(KafkaError(KafkaError._TRANSPORT)))
        return found


def _message(number: int, offset: int) -> FakeMessage:
    return FakeMessage(number, offset, b"%d" % offset)


def _failed(number: int, offset: int, error: KafkaError) -> FakeMessage:
    return FakeMessage(number, offset, b"", error)


@contextmanager
def asked_instead(brokers: FakeBrokers) -> Iterator[list[dict[str, Any]]]:
    """Have every client ask these brokers.

    Yields:
        The settings of each consumer, in order.
    """
    made: list[dict[str, Any]] = []

    def consumer(self: Brokers, isolation: str, _: object) -> FakeConsumer:
        made.append(dict(self.config))
        return FakeConsumer(brokers, committed=isolation == "read_committed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Brokers, "consumer", consumer)
        patch.setattr(Brokers, "admin", lambda *_: FakeAdmin(brokers))
        yield made
