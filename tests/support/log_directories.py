"""Log directories as brokers have them: those that were recorded, and small ones."""

import json
import shutil
import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from servers import Bucket
from support.golden import expected_record_facts, record_facts, rows_of
from support.kafka_data import KAFKA, LOCAL, REMOTE
from support.segments import records
from support.wire import encode_batch
from tieredfs import (
    ObjectStore,
    RequestObserver,
    Tier,
    Topic,
    TopicIdPartition,
    Uuid,
)
from tieredfs.log.partitions import select_partitions, without_internal
from tieredfs.log.push.push import PushOutcome, PushReport, push
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject

__all__ = [
    "ID",
    "OTHER_ID",
    "RECORDED",
    "check_records",
    "closed_files",
    "closed_records",
    "log_of",
    "native",
    "outcomes",
    "partition_of",
    "push_all",
    "recorded",
    "small",
    "source_of",
    "topic_of",
    "write_last_entry",
    "write_log",
]

ID = Uuid("AAAAAAAAAAAAAAAAAAAAAQ")
OTHER_ID = Uuid("-AAAAAAAAAAAAAAAAAAAAA")

RECORDED = ("plain", "epochs", "compacted", "txn")
"""Topics whose log directory ``recorded`` lays out."""


def recorded(topic: str, root: Path) -> Path:
    """Copy the log directory of a topic that a broker wrote, and return it.

    Where only what the broker tiered was kept, its files are given the names that they
    had on the broker's disk, and an empty active segment follows.
    """
    root.mkdir(parents=True, exist_ok=True)
    if (KAFKA / topic / LOCAL).is_dir():
        shutil.copytree(KAFKA / topic / LOCAL, root, dirs_exist_ok=True)
        return root
    (tiered,) = (KAFKA / topic / REMOTE).iterdir()
    folder = root / f"{topic}-0"
    folder.mkdir()
    told = f"version: 0\ntopic_id: {tiered.name[-22:]}"
    (folder / "partition.metadata").write_text(told)
    logs = sorted(tiered.glob("*.log"))
    end = closed_end(topic)
    starts = [int(log.name[:20]) for log in logs] + [end]
    for log, (start, following) in zip(logs, pairwise(starts), strict=True):
        for suffix in ("log", "index", "timeindex", "txnindex"):
            if (file := log.with_suffix(f".{suffix}")).exists():
                shutil.copy(file, folder / f"{start:020d}.{suffix}")
        snapshot = folder / f"{following:020d}.snapshot"
        shutil.copy(log.with_suffix(".snapshot"), snapshot)
    checkpoint = logs[-1].with_suffix(".leader_epoch_checkpoint")
    shutil.copy(checkpoint, folder / "leader-epoch-checkpoint")
    (folder / f"{end:020d}.log").touch()
    return root


def closed_end(topic: str) -> int:
    """Return the end (exclusive) of what a topic has in closed segments."""
    if (KAFKA / topic / LOCAL).is_dir():
        logs = (KAFKA / topic / LOCAL).glob("*/*.log")
        return max(int(log.stem) for log in logs)
    told = json.loads((KAFKA / topic / "consumer.json").read_text())
    end: int = told["read_uncommitted"]["0"]["endOffset"]
    return end


def closed_records(topic: str) -> list[dict[str, Any]]:
    """Return what Kafka's own classes read of closed segments, controls left out.

    Not of every segment is it kept: ``digest`` and ``consumer.json`` tell of all.
    """
    end = closed_end(topic)
    found: dict[int, dict[str, Any]] = {}
    for file in (KAFKA / topic / "expected").glob("*/*/*.log.expected.jsonl"):
        for line in file.read_bytes().splitlines():
            one = json.loads(line)
            if not one["control"] and one["offset"] < end:
                found[one["offset"]] = expected_record_facts(one)
    return [found[offset] for offset in sorted(found)]


def closed_files(root: Path) -> dict[str, bytes]:
    """Return the files of the closed segments of a log directory by their keys."""
    found: dict[str, bytes] = {}
    for folder in (path for path in root.iterdir() if path.is_dir()):
        starts = sorted(int(log.stem) for log in folder.glob("*.log"))
        for start, end in pairwise(starts):
            names = [f"{start:020d}.{s}" for s in ("log", "index", "timeindex")]
            names += [f"{start:020d}.txnindex", f"{end:020d}.snapshot"]
            for file in (folder / name for name in names):
                if file.exists():
                    found[f"{folder.name}/{file.name}"] = file.read_bytes()
    return found


def log_of(start: int, count: int = 10, *, epoch: int = 0, value: str = "v") -> bytes:
    """Encode a log of batches of five records."""
    return b"".join(
        encode_batch(
            records(first, min(5, start + count - first), value=value),
            leader_epoch=epoch,
        )
        for first in range(start, start + count, 5)
    )


def write_log(
    root: Path,
    logs: Mapping[int, bytes],
    *,
    partition: str = "t-0",
    topic_id: Uuid | None = ID,
    epochs: Sequence[tuple[int, int]] = ((0, 0),),
) -> Path:
    """Write a partition of a log directory, and return its folder.

    It has no index, but for the last entry of the time index of a log that the cleaner
    has left with a hole at its end.

    Args:
        root: The log directory.
        logs: The logs by their first offsets; the last one is the active segment.
        partition: The name of the folder.
        topic_id: The topic's id; None for a broker that knows none.
        epochs: The entries of the checkpoint.
    """
    folder = root / partition
    folder.mkdir(parents=True, exist_ok=True)
    for start, log in logs.items():
        (folder / f"{start:020d}.log").write_bytes(log)
    for (start, log), following in zip(logs.items(), [*logs][1:], strict=False):
        timestamp, last = last_entry(log)
        if timestamp >= 0 and last + 1 < following:
            write_last_entry(folder, start)
    if topic_id is not None:
        told = f"version: 0\ntopic_id: {topic_id}"
        (folder / "partition.metadata").write_text(told)
    entries = "".join(f"{epoch} {first}\n" for epoch, first in epochs)
    checkpoint = f"0\n{len(epochs)}\n{entries}"
    (folder / "leader-epoch-checkpoint").write_text(checkpoint)
    return folder


def last_entry(log: bytes) -> tuple[int, int]:
    """Return the largest timestamp of a log, and the last offset of its batch."""
    at, found = 0, (-1, -1)
    while at < len(log):
        base, length = struct.unpack_from(">qi", log, at)
        (delta,) = struct.unpack_from(">i", log, at + 23)
        (timestamp,) = struct.unpack_from(">q", log, at + 35)
        found = max(found, (timestamp, base + delta))
        at += 12 + length
    return found


def write_last_entry(folder: Path, start: int) -> None:
    """Write the entry that ends the time index of a segment when it is closed."""
    timestamp, offset = last_entry((folder / f"{start:020d}.log").read_bytes())
    entry = struct.pack(">qi", timestamp, offset - start)
    (folder / f"{start:020d}.timeindex").write_bytes(entry)


def small(root: Path, *, topic_id: Uuid = ID) -> Path:
    """Write a log of four segments of ten records, the last one active."""
    logs = {start: log_of(start) for start in range(0, 40, 10)}
    return write_log(root, logs, topic_id=topic_id)


def source_of(root: Path) -> KafkaLog:
    """Open a log directory."""
    return KafkaLog(ObjectStore(str(root)))


def native(place: Bucket, observer: RequestObserver | None = None) -> SingleObject:
    """Open a place in the native layout."""
    return SingleObject(
        ObjectStore(place.url, place.storage_options, observer=observer)
    )


def push_all(
    source: RemoteStorageManager, target: RemoteStorageManager, *, active: bool = False
) -> PushReport:
    """Push every partition but those of internal topics."""
    partitions = without_internal(select_partitions(source))
    return push(source, target, partitions, active=active)


def outcomes(report: PushReport) -> list[tuple[int, PushOutcome]]:
    """Return first offset and outcome of each segment."""
    return [(one.segment.start_offset, one.outcome) for one in report.segments]


def topic_of(storage: RemoteStorageManager, name: str = "t") -> Topic:
    """Open a topic of a storage."""
    return Tier(storage).topic(name)


def check_records(storage: RemoteStorageManager, topic: str) -> None:
    """Check that the records of a topic are those that Kafka's own classes read."""
    rows = rows_of(topic_of(storage, topic).scan().to_table())
    ours = {row["offset"]: record_facts(row) for row in rows}
    kafkas = [one for one in closed_records(topic) if one["offset"] >= min(ours)]
    assert kafkas
    assert [ours.get(one["offset"]) for one in kafkas] == kafkas


def partition_of(topic_id: Uuid = ID) -> TopicIdPartition:
    """Return the partition that ``small`` writes."""
    return TopicIdPartition("t", 0, topic_id)
