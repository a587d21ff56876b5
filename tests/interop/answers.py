"""What a broker answers when it is asked what a topic holds."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

__all__ = ["Answers", "Found", "Record", "ask"]

_SECONDS = 60
_AT_ONCE = 50
"""Lookups in the tier that a broker queues: it refuses more than a hundred."""


class Record(NamedTuple):
    """All that a consumer learns of a record."""

    offset: int
    leader_epoch: int | None
    timestamp_type: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, str | bytes | None], ...]


class Found(NamedTuple):
    """What ``offsetsForTimes`` says; -1 for nothing so late."""

    offset: int
    timestamp: int
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class Answers:
    """What a broker says of one topic.

    Attributes:
        uncommitted: The records of every transaction.
        committed: Those that a reader of committed records sees.
        times: For each time that was asked for, what was found.
    """

    uncommitted: tuple[Record, ...]
    committed: tuple[Record, ...]
    times: dict[int, Found]


def ask(address: str, topic: str, times: Sequence[int]) -> Answers:
    """Consume partition 0 of a topic in both ways, and look up times in it."""
    return Answers(
        tuple(_consume(address, topic, "read_uncommitted")),
        tuple(_consume(address, topic, "read_committed")),
        _find(address, topic, times),
    )


def _consume(address: str, topic: str, isolation: str) -> Iterator[Record]:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "interop",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 10,  # at the end there is nothing to wait for
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            message = consumer.poll(_SECONDS)
            if message is None:
                raise TimeoutError(f"{topic}: nothing in {_SECONDS} s")
            error = message.error()
            if error is None:
                yield _record(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                return
            else:
                raise KafkaException(error)
    finally:
        consumer.close()


def _record(message: Message) -> Record:
    kind, timestamp = message.timestamp()
    offset, headers = message.offset(), message.headers() or []
    assert offset is not None
    assert isinstance(headers, list)
    return Record(
        offset,
        message.leader_epoch(),
        kind,
        timestamp,
        message.key(),
        message.value(),
        tuple(headers),
    )


def _find(address: str, topic: str, times: Sequence[int]) -> dict[int, Found]:
    admin = AdminClient({"bootstrap.servers": address})
    partition = TopicPartition(topic, 0)
    found: dict[int, Found] = {}
    left = list(times)
    deadline = time.monotonic() + _SECONDS
    while left:
        some, left = left[:_AT_ONCE], left[_AT_ONCE:]
        asked = {
            when: admin.list_offsets(
                {partition: OffsetSpec.for_timestamp(when)}, request_timeout=_SECONDS
            )[partition]
            for when in some
        }
        for when, future in asked.items():
            try:
                answer = future.result(_SECONDS)
            except KafkaException as error:
                # A busy broker says so long before the time is over; one asks again.
                timed_out = error.args[0].code() == KafkaError.REQUEST_TIMED_OUT
                if not timed_out or time.monotonic() > deadline:
                    raise
                left.append(when)
            else:
                found[when] = Found(
                    answer.offset, answer.timestamp, answer.leader_epoch
                )
    return found
