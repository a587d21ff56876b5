"""The logs of ``tests/data/kafka``, which brokers wrote, and what is known of them."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

__all__ = ["KAFKA", "LOCAL", "REMOTE", "broker_segments", "digest", "load_json", "runs"]

KAFKA = Path(__file__).parents[1] / "data" / "kafka"
"""What a broker wrote, and what Kafka's own code says of it."""

REMOTE = "kafka-tiered-storage"
"""Of a topic: what the broker tiered with Kafka's LocalTieredStorage."""

LOCAL = "raw-log-dir"
"""Of a topic: the broker's log directory."""


def load_json(*parts: str) -> Any:  # noqa: ANN401 - whatever is in it
    """Read one of the JSON files of a topic."""
    return json.loads(KAFKA.joinpath(*parts).read_text())


def digest(table: pa.Table) -> str:
    """Return the digest that ``consumer.json`` has of the records."""
    sha = hashlib.sha256()
    stamps = table["timestamp"].cast(pa.int64())
    columns = (table["offset"], stamps, table["key"], table["value"])
    for offset, stamp, key, value in zip(
        *(column.to_pylist() for column in columns), strict=True
    ):
        sha.update(f"{offset}:{stamp}:".encode())
        sha.update(key or b"")
        sha.update(b"\0")
        sha.update(value or b"")
    return sha.hexdigest()


def runs(offsets: Iterable[int]) -> list[list[int]]:
    """Fold offsets into inclusive runs, as in ``consumer.json``."""
    found: list[list[int]] = []
    for offset in offsets:
        if found and found[-1][1] == offset - 1:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    return found


def broker_segments(topic: str) -> list[dict[str, Any]]:
    """Return the metadata that the broker recorded of each segment it finished."""
    lines = (KAFKA / topic / "remote_log_metadata.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    done = {
        event["segmentId"]
        for event in events
        if event["state"] == "COPY_SEGMENT_FINISHED"
    }
    return [
        event
        for event in events
        if event["state"] == "COPY_SEGMENT_STARTED" and event["segmentId"] in done
    ]
