"""Records of a Kafka client as Arrow batches, in the columns of every other reader."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Message

from tieredfs.errors import UnsupportedFormatError
from tieredfs.format.records.schema import project

__all__ = ["size_of", "to_batch"]

_TIMESTAMP_TYPE_OFFSET: Final = -1
"""The client counts from 0 for none, a log from -1."""


def size_of(message: Message) -> int:
    """Return the bytes of a record's key and value."""
    return len(message) + len(message.key() or b"")


def to_batch(
    messages: Sequence[Message], columns: tuple[str, ...] | None
) -> pa.RecordBatch:
    """Return records as a batch.

    Args:
        messages: The records, of one partition, in offset order.
        columns: The columns, in this order; None for all.

    Raises:
        UnsupportedFormatError: The name of a header is not UTF-8, and headers are
            wanted.
    """
    schema = project(columns)
    arrays = [
        pa.array(list(map(_VALUES[field.name], messages)), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _timestamp(message: Message) -> int:
    return message.timestamp()[1]


def _timestamp_type(message: Message) -> int:
    return message.timestamp()[0] + _TIMESTAMP_TYPE_OFFSET


def _headers(message: Message) -> list[dict[str, object]] | None:
    try:
        headers = message.headers()
    except (SystemError, UnicodeDecodeError) as error:  # the client has no bytes
        where = f"{message.topic()}-{message.partition()}, offset {message.offset()}"
        msg = (
            f"{where}: the name of a header is not UTF-8, which the Kafka client "
            "cannot read: choose columns without headers, or read it from the tier"
        )
        raise UnsupportedFormatError(msg) from error
    if not headers:
        return None
    pairs = headers.items() if isinstance(headers, dict) else headers
    return [{"key": key, "value": value} for key, value in pairs]


_VALUES: Final[dict[str, Callable[[Message], Any]]] = {
    "key": lambda message: message.key(),
    "value": lambda message: message.value(),
    "topic": lambda message: message.topic(),
    "partition": lambda message: message.partition(),
    "offset": lambda message: message.offset(),
    "timestamp": _timestamp,
    "timestampType": _timestamp_type,
    "headers": _headers,
}
"""How the value of each column is taken from a record."""
