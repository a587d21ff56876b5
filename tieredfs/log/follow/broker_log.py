"""A topic as its brokers have it, through the client of confluent-kafka."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, Self, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from tieredfs.errors import StorageUnavailableError, TieredFSError
from tieredfs.format.records.schema import MAX_ROWS
from tieredfs.log.follow.brokers import Brokers
from tieredfs.log.follow.kafka_errors import error_of, is_transient
from tieredfs.log.follow.live_log import Arrived, Ended, Event, LiveTopic, Refused
from tieredfs.log.follow.messages import size_of, to_batch
from tieredfs.log.follow.topic_watch import Clock, Described, TopicWatch
from tieredfs.log.read.reader import Bounds
from tieredfs.objects.concurrency.waiting import SIGNAL_CHECK_SECONDS, result_of
from tieredfs.objects.policy import Deadline

__all__ = ["BrokerLog"]

_T = TypeVar("_T")

_CLOCK: Final = Clock(time.monotonic, time.sleep)

_DRAINED: Final = 500
"""Messages that are taken together of those that have arrived."""


_EARLIEST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]

_OUT_OF_RANGE: Final = frozenset(
    {"_AUTO_OFFSET_RESET", "_LOG_TRUNCATION", "OFFSET_OUT_OF_RANGE"}
)
_UNKNOWN: Final = frozenset(
    {
        "UNKNOWN_TOPIC_OR_PART",
        "UNKNOWN_TOPIC_ID",
        "_UNKNOWN_TOPIC",
        "_UNKNOWN_PARTITION",
    }
)


class BrokerLog:
    """A ``LiveLog`` of real brokers."""

    def __init__(
        self,
        brokers: Brokers,
        topic: LiveTopic,
        consumer: Consumer,
        admin: AdminClient,
        *,
        clock: Clock = _CLOCK,
    ) -> None:
        """Take the clients, and send no request.

        Args:
            brokers: How they reach the brokers.
            topic: What is wanted.
            consumer: Reads the partitions.
            admin: Asks for descriptions and offsets.
            clock: The time.
        """
        self._brokers = brokers
        self._topic = topic
        self._consumer = consumer
        self._admin = admin
        self._clock = clock
        self._assigned: set[int] = set()
        self.watch = TopicWatch(
            self._describe,
            where=self._where,
            topic_id=topic.topic_id,
            deadline=brokers.deadline,
            clock=clock,
        )

    @classmethod
    def connect(cls, brokers: Brokers, topic: LiveTopic) -> Self:
        """Return the log, once a broker has described the topic.

        Raises:
            InvalidArgumentError: A setting of the client is invalid.
            NotFoundError: There is no such topic, or it has another id.
            PermissionDeniedError: The brokers refuse the credentials.
            StorageUnavailableError: No broker answered in time.
        """
        failures: list[Callable[[KafkaError], object]] = []

        def note(error: KafkaError) -> None:
            for one in failures:
                one(error)

        isolation = "read_committed" if topic.committed else "read_uncommitted"
        consumer = brokers.consumer(isolation, note)
        try:
            found = cls(brokers, topic, consumer, brokers.admin(note))
            failures.append(found.watch.note)
            found.partitions()
        except BaseException:
            consumer.close()
            raise
        return found

    @property
    def is_answering(self) -> bool:
        """Whether nothing that was asked of the brokers waits for its answer."""
        return self.watch.is_answering

    def partitions(self) -> tuple[int, ...]:
        """Return the numbers of the topic's partitions, once a broker has said so.

        Raises:
            NotFoundError: There is no such topic, or it has another id.
            PermissionDeniedError: The brokers refuse the credentials.
            StorageUnavailableError: No broker answered in time.
        """
        while True:
            self.watch.check()
            if self.watch.found is not None:
                return self.watch.found.partitions
            self.watch.wait()
            self._consumer.poll(0)  # it says why no broker is reached

    def confirm(self) -> None:
        """Ask whether the topic is still the one that it was.

        Raises:
            NotFoundError: It is not.
            PermissionDeniedError: The brokers refuse the credentials.
            StorageUnavailableError: No broker answered in time.
        """
        self.watch.forget()
        self.partitions()

    def read(self, positions: Mapping[int, int]) -> None:
        """Read partitions from these offsets on, and others as before."""
        if not positions:
            return
        again = [self._at(number) for number in positions if number in self._assigned]
        if again:
            self._consumer.incremental_unassign(again)
        self._consumer.incremental_assign(
            [self._at(number, offset) for number, offset in positions.items()]
        )
        self._assigned.update(positions)

    def poll(self, seconds: float) -> Iterator[Event]:
        """Yield what has come from the partitions that are read; wait if nothing has.

        Args:
            seconds: Maximum wait for the first event.

        Raises:
            NotFoundError: The topic was deleted, perhaps to be created again.
            PermissionDeniedError: The brokers refuse the credentials.
            CorruptDataError: What came is corrupt.
            StorageUnavailableError: No broker has answered for too long.
        """
        self.watch.check()
        first = self._consumer.poll(min(seconds, SIGNAL_CHECK_SECONDS))
        if first is not None:  # a record without a value is false
            yield from self._events(self._drained(first))

    def bounds(self, partition: int) -> Bounds:
        """Return the offsets that a partition holds.

        Raises:
            StorageUnavailableError: No broker answered in time.
        """
        first = self._offsets([partition], _EARLIEST)[partition]
        return Bounds(first, self._offsets([partition], _LATEST)[partition])

    def ends(self, partitions: Collection[int]) -> dict[int, int]:
        """Return the end of each partition, or of its committed records.

        Raises:
            StorageUnavailableError: No broker answered in time.
        """
        return self._offsets(partitions, _LATEST, committed=self._topic.committed)

    def offset_of_time(self, partition: int, timestamp: int) -> int | None:
        """Return the offset of the first record at or after a time; None if none.

        Args:
            partition: Its number.
            timestamp: Milliseconds since 1970 UTC.

        Raises:
            StorageUnavailableError: No broker answered in time.
        """
        wanted = OffsetSpec.for_timestamp(timestamp)
        found = self._offsets([partition], wanted)[partition]
        return None if found < 0 else found

    def close(self) -> None:
        """End all reading."""
        self._consumer.close()

    @property
    def _where(self) -> str:
        return f"{self._brokers.bootstrap}: {self._topic.name}"

    def _at(self, number: int, offset: int | None = None) -> TopicPartition:
        if offset is None:
            return TopicPartition(self._topic.name, number)
        return TopicPartition(self._topic.name, number, offset)

    def _drained(self, first: Message) -> list[Message]:
        """Return what has arrived, of about the size of an Arrow batch."""
        found, size = [first], size_of(first)
        while size < self._topic.output.full:
            more = self._consumer.consume(_DRAINED, 0)
            found += more
            size += sum(map(size_of, more))
            if len(more) < _DRAINED:
                break
        return found

    def _events(self, messages: Sequence[Message]) -> Iterator[Event]:
        """Yield the events of each partition in their order."""
        waiting: dict[int, list[Message]] = {}
        for message in messages:
            number, error = message.partition(), message.error()
            if number is None:
                number = -1
            if error is None:
                waiting.setdefault(number, []).append(message)
                continue
            yield from self._arrived(number, waiting.pop(number, []))
            event = self._event(number, message, error)
            if event is not None:
                yield event
        for number, records in waiting.items():
            yield from self._arrived(number, records)

    def _event(self, number: int, message: Message, error: KafkaError) -> Event | None:
        name = error.name()
        if name == "_PARTITION_EOF":
            return Ended(number, message.offset() or 0)
        if name in _OUT_OF_RANGE:
            return Refused(number)
        if name in _UNKNOWN:
            self.watch.ask_soon()
            return None
        if is_transient(error) and not error.fatal():
            self.watch.note(error)
            return None
        raise self._error(error, f"{self._where}-{number}")

    def _arrived(self, number: int, records: Sequence[Message]) -> Iterator[Arrived]:
        """Yield records in batches that are not too large."""
        part: list[Message] = []
        size = 0
        for record in records:
            own = size_of(record)
            is_full = size + own > self._topic.output.full or len(part) >= MAX_ROWS
            if part and is_full:
                yield Arrived(number, to_batch(part, self._topic.columns))
                part, size = [], 0
            part.append(record)
            size += own
        if part:
            yield Arrived(number, to_batch(part, self._topic.columns))

    def _describe(self) -> "Future[Described]":
        """Ask for the topic's description."""
        name = self._topic.name
        asked: Future[object] = self._admin.describe_topics(
            TopicCollection([name]), request_timeout=self._brokers.deadline / 2
        )[name]
        found: Future[Described] = Future()

        def pass_on(answered: "Future[object]") -> None:
            try:
                found.set_result(_described(answered.result()))
            except BaseException as error:  # noqa: BLE001 - it is the caller's
                found.set_exception(error)

        asked.add_done_callback(pass_on)
        return found

    def _offsets(
        self,
        partitions: Collection[int],
        wanted: OffsetSpec,
        *,
        committed: bool = False,
    ) -> dict[int, int]:
        """Ask for an offset of each partition until there is an answer, or no time."""
        asked = {self._at(number): wanted for number in partitions}
        level = (
            IsolationLevel.READ_COMMITTED
            if committed
            else IsolationLevel.READ_UNCOMMITTED
        )

        def ask(seconds: float) -> dict[int, int]:
            answers = self._admin.list_offsets(
                asked, isolation_level=level, request_timeout=seconds
            )
            return {
                at.partition: result_of(answer, seconds).offset
                for at, answer in answers.items()
            }

        return self._repeated(ask, self._where) if asked else {}

    def _repeated(self, ask: Callable[[float], _T], where: str) -> _T:
        """Return what a question returns, asked again while an error may pass."""
        deadline = Deadline(self._brokers.deadline, self._clock.now)
        while True:
            try:
                return ask(max(deadline.remaining / 2, SIGNAL_CHECK_SECONDS))
            except KafkaException as error:
                failed = self._error(error.args[0], where)
                cause: Exception = error
            except TimeoutError as error:
                seconds = self._brokers.deadline
                failed = StorageUnavailableError(f"{where}: no answer in {seconds:g} s")
                cause = error
            if not isinstance(failed, StorageUnavailableError) or (
                deadline.remaining <= SIGNAL_CHECK_SECONDS
            ):
                raise failed from cause
            self._clock.sleep(SIGNAL_CHECK_SECONDS)

    def _error(self, error: KafkaError, where: str) -> TieredFSError:
        found = error_of(error, where)
        return type(found)(self._brokers.redacted(str(found)))


def _described(found: object) -> Described:
    """Return a topic as the client describes it; its base64 is not Kafka's base64url.

    Args:
        found: A TopicDescription.
    """
    text = str(found.topic_id).rstrip("=")  # type: ignore[attr-defined]
    numbers = sorted(one.id for one in found.partitions)  # type: ignore[attr-defined]
    return Described(text.replace("+", "-").replace("/", "_"), tuple(numbers))
