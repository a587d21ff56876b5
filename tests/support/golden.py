"""Bytes that real brokers wrote, and what Kafka's own classes say is in them."""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.kafka_data import KAFKA
from tieredfs.format.batch.header import BatchHeader
from tieredfs.format.batch.reader import scan_log
from tieredfs.format.batch.table import LogBatches
from tieredfs.format.buffers import Buffer
from tieredfs.format.records.decode import RecordDecoder

__all__ = [
    "Golden",
    "batch_facts",
    "decode",
    "expected_record_facts",
    "goldens",
    "header_of",
    "headers_of",
    "log_batches",
    "record_facts",
    "rows_of",
]

_PRODUCERS = 2  # the version that brought producers, epochs and a count of records
_LONGEST = 1024  # the expected files hold longer keys and values as a digest
_TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


@dataclass(frozen=True, slots=True)
class Golden:
    """A file of a broker, and the file that says what is in it.

    Attributes:
        source: The broker's file.
        expected: What Kafka's classes read from it.
    """

    source: Path
    expected: Path

    def __str__(self) -> str:
        """Name it in the list of tests."""
        path = self.source.relative_to(KAFKA)
        return f"{path.parts[0]}/{path.parts[1]}/{path.parent.name}/{path.name}"

    def read(self) -> bytes:
        """Read the broker's file."""
        return self.source.read_bytes()

    def document(self) -> Any:  # noqa: ANN401 - JSON
        """Read the expected file as one document."""
        return json.loads(self.expected.read_bytes())

    def lines(self) -> list[dict[str, Any]]:
        """Read the expected file as one document a line."""
        return [json.loads(line) for line in self.expected.read_bytes().splitlines()]


def goldens(suffix: str) -> list[Golden]:
    """Find all expected files with this ending, and what they were read from."""
    found = []
    for expected in sorted(KAFKA.glob(f"*/expected/**/*{suffix}")):
        topic, _, *rest = expected.relative_to(KAFKA).parts
        source = KAFKA.joinpath(topic, *rest)
        name = source.name.removesuffix(".expected.json").removesuffix(".jsonl")
        name = name.removesuffix(".expected").removesuffix(".batches")
        found.append(
            Golden(source.with_name(name.removesuffix(".tail.json")), expected)
        )
    assert found, f"no sample data: {KAFKA}/*/expected/**/*{suffix}"
    return found


def log_batches(data: bytes) -> Iterator[LogBatches]:
    """Find the batches of a log, each by itself."""
    for batches in scan_log(data, name="log"):
        yield from (batches.take([row]) for row in range(len(batches)))


def headers_of(
    data: Buffer, *, offset: int = 0, after: int = -1, name: str = "log"
) -> Iterator[BatchHeader]:
    """Yield the header of each whole batch of a log, as ``scan_log`` does."""
    for batches in scan_log(data, offset=offset, after=after, name=name):
        for batch in batches:
            yield batch.header


def header_of(batches: LogBatches) -> BatchHeader:
    """Return the header of a batch that is by itself."""
    (batch,) = batches
    return batch.header


def decode(
    batches: bytes | Iterable[LogBatches], columns: tuple[str, ...] | None = None
) -> pa.Table:
    """Decode a log, or some of its batches, into one table."""
    found = scan_log(batches, name="log") if isinstance(batches, bytes) else batches
    decoder = RecordDecoder("t", 0, columns)
    return pa.Table.from_batches(list(decoder.decode(found)), decoder.schema)


def batch_facts(header: BatchHeader) -> dict[str, Any]:
    """Say of a batch what the expected files say of it."""
    facts = {
        "position": header.position,
        "size": header.size,
        "magic": header.magic,
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": None if header.magic < _PRODUCERS else header.record_count,
        "codec": header.codec.name.lower(),
        "timestampType": _TIMESTAMP_TYPES[header.timestamp_type],
        "maxTimestamp": header.max_timestamp,
        "crc": header.crc,
        "valid": True,
        "records": header.record_count,
    }
    if header.magic < _PRODUCERS:
        return facts
    return facts | {
        "leaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "deleteHorizonMs": header.delete_horizon_ms,
    }


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table, timestamps as integers: not all fit a datetime."""
    if "timestamp" in table.column_names:
        at = table.column_names.index("timestamp")
        stamps = table["timestamp"].cast(pa.int64())
        table = table.set_column(at, "timestamp", stamps)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def record_facts(row: dict[str, Any]) -> dict[str, Any]:
    """Say of a decoded record what the expected files say of it."""
    return {
        "offset": row["offset"],
        "timestamp": row["timestamp"],
        "timestampType": _TIMESTAMP_TYPES[row["timestampType"]],
        "key": _payload(row["key"]),
        "value": _payload(row["value"]),
        "headers": [[h["key"], h["value"]] for h in row["headers"] or ()],
    }


def expected_record_facts(record: dict[str, Any]) -> dict[str, Any]:
    """Bring one line of a records file to the form of ``record_facts``."""
    return {
        "offset": record["offset"],
        "timestamp": record["timestamp"],
        "timestampType": record["timestampType"],
        "key": _expected_payload(record, "key"),
        "value": _expected_payload(record, "value"),
        "headers": [[key, _bytes(value)] for key, value in record["headers"]],
    }


def _payload(value: bytes | None) -> bytes | tuple[int, bytes] | None:
    if value is None or len(value) <= _LONGEST:
        return value
    return len(value), hashlib.sha256(value).digest()


def _expected_payload(
    record: dict[str, Any], name: str
) -> bytes | tuple[int, bytes] | None:
    if name in record:
        return _bytes(record[name])
    digest = record[f"{name}Sha256"]
    return record[f"{name}Length"], bytes.fromhex(digest)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
