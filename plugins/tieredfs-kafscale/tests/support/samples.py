"""What KafScale's own broker wrote, and what it answers."""

import base64
import hashlib
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from tieredfs import NotFoundError, ObjectStore, Tier, TopicIdPartition
from tieredfs_kafscale import KafScale

__all__ = [
    "CASES",
    "DATA",
    "PARTITIONS",
    "expected",
    "new_store",
    "opened",
    "parsed",
    "read",
    "rows",
    "written",
]

DATA = Path(__file__).parents[1] / "data"
CASES: dict[str, Any] = json.loads((DATA / "restore-cases" / "cases.json").read_text())
_HASHED_BYTES = 64


def new_store() -> ObjectStore:
    """Return an empty store in memory."""
    return ObjectStore(f"memory://kafscale-{uuid.uuid4().hex}")


def opened(folder: str = "store") -> KafScale:
    """Return a storage of recorded objects."""
    return KafScale(ObjectStore(str(DATA / folder)))


PARTITIONS = [
    partition
    for partition in opened().list_partitions()
    if (DATA / "records" / "same_etcd" / f"{partition}.jsonl").exists()
    or (DATA / "records" / "empty_etcd" / f"{partition}.jsonl").exists()
]


def parsed(suffix: str) -> dict[str, dict[str, Any]]:
    """Return what KafScale's parsers say of each object of a kind, by its key."""
    lines = map(json.loads, (DATA / "parsed.jsonl").read_text().splitlines())
    return {one["path"]: one for one in lines if one["path"].endswith(f".{suffix}")}


def expected(partition: TopicIdPartition) -> list[dict[str, Any]]:
    """Return what a consumer read through a broker that opened the partition."""
    for etcd in ("same_etcd", "empty_etcd"):
        path = DATA / "records" / etcd / f"{partition}.jsonl"
        if path.exists():
            found = [json.loads(line) for line in path.read_text().splitlines()]
            return [
                {key: one[key] for key in one if key != "timestamp_type"}
                for one in found
            ]
    raise NotFoundError(str(partition))


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return records as a consumer's answers have them."""
    stamps = table["timestamp"].cast(pa.int64()).to_pylist()  # of the year 9999, too
    records = table.drop_columns("timestamp").to_pylist()
    return [
        dict(_row(record, stamp)) for record, stamp in zip(records, stamps, strict=True)
    ]


def written(store: ObjectStore) -> dict[str, bytes]:
    """Return all objects of a store; of a log not the time at which it was made."""
    found = {entry.key: bytes(store.get(entry.key)) for entry in store.list()}
    return {
        key: data[:20] + data[28:] if key.endswith(".kfs") else data
        for key, data in found.items()
    }


def read(storage: KafScale, partition: TopicIdPartition) -> pa.Table:
    """Read a partition, and leave out what is in no segment."""
    topic = Tier(storage).topic(partition.topic)
    return topic.scan([partition.partition], on_gap="skip").to_table()


def _row(record: dict[str, Any], stamp: int) -> Iterator[tuple[str, Any]]:
    yield "offset", record["offset"]
    yield "timestamp", stamp
    yield "key", _text(record["key"])
    value = record["value"]
    if value is not None and len(value) > _HASHED_BYTES:
        yield "value_len", len(value)
        yield "value_sha256", hashlib.sha256(value).hexdigest()
    else:
        yield "value", _text(value)
    headers = record["headers"] or []
    yield "headers", [[one["key"], _text(one["value"])] for one in headers]


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
