"""Kafka's logs for tests: those that brokers wrote, and small ones made by hand."""

import hashlib
import json
import uuid
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import google_crc32c
import pyarrow as pa
import pytest
from fsspec.core import url_to_fs
from fsspec.implementations.memory import MemoryFileSystem

from servers import Bucket, Fleet, RangeHTTP
from support.prerequisites import server_of
from support.wire import WireRecord
from tieredfs import ObjectStore, Uuid

KAFKA = Path(__file__).parents[1] / "data" / "kafka"
"""What a broker wrote, and what Kafka's own code says of it."""

REMOTE = "kafka-tiered-storage"
LOCAL = "raw-log-dir"

KINDS = ("local", "memory", "s3", "gcs", "azure")
"""The backends on which everything has to be the same."""

CLOUDS = ("s3", "gcs", "azure")
"""The object stores of which a proxy can stand in front."""

SECOND = ("s3-moto", "s3-rclone")
"""More servers that speak S3: AWS's own answers, and no conditional writes."""

READ_ONLY = ("http", "zip")
"""What has to be there before it is opened."""

PLACES = ("local", "memory", *CLOUDS, *SECOND, "sftp", "webhdfs", "chained", *READ_ONLY)
"""All that the tests can open."""


def make_place(
    kind: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    files: Mapping[str, bytes] | None = None,
) -> Bucket:
    """Return a place of this test's own; nothing is there before it is used.

    Args:
        kind: One of `PLACES`.
        request: Of the test that will use it.
        tmp_path: Of that test.
        files: What is to lie there; put by the plain client, not by our own.
    """
    if kind == "zip":
        return _archive(tmp_path / "archive.zip", files or {})
    where: Bucket | None = None
    if kind == "local":
        place = Bucket(str(tmp_path / "a" / "root"), {})
    elif kind in {"memory", "chained"}:
        place = _in_memory(request)
        if kind == "chained":
            place = Bucket(f"dir://root::{place.url}", {})
    else:
        fleet = cast("Fleet", request.getfixturevalue("fleet"))
        server = server_of(kind, fleet)
        place = fleet.place(kind)
        if isinstance(server, RangeHTTP):
            where = Bucket(f"{server.root}{urlsplit(place.url).path}", {})
    if files:
        _put(where or place, files)
    return place


def _in_memory(request: pytest.FixtureRequest) -> Bucket:
    root = f"/{uuid.uuid4().hex}"

    def forget() -> None:
        with suppress(FileNotFoundError):
            MemoryFileSystem().rm(root, recursive=True)

    request.addfinalizer(forget)
    return Bucket(f"memory:/{root}/root", {})


def _archive(path: Path, files: Mapping[str, bytes]) -> Bucket:
    with zipfile.ZipFile(path, "w") as archive:
        for key, content in files.items():
            archive.writestr(f"root/{key}", content)
    return Bucket(f"zip://root::file://{path}", {})


def _put(place: Bucket, files: Mapping[str, bytes]) -> None:
    filesystem, root = url_to_fs(
        place.url, skip_instance_cache=True, **place.storage_options
    )
    for key, content in files.items():
        path = f"{root}/{key}"
        filesystem.makedirs(filesystem._parent(path), exist_ok=True)
        filesystem.pipe_file(path, content)


def open_store(place: Bucket) -> ObjectStore:
    """Return the store of a place."""
    return ObjectStore(place.url, place.storage_options)


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder by their keys."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def fill(store: ObjectStore, files: Mapping[str, bytes]) -> None:
    """Put files into a store, several at a time."""
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(
            lambda item: store.put(item[0], item[1], overwrite=True), files.items()
        ):
            pass


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


def segment(
    folder: str,
    start: int,
    log: bytes,
    *,
    epochs: Sequence[tuple[int, int]] = ((0, 0),),
    name: str = "",
) -> dict[str, bytes]:
    """Return the files of a segment in Kafka's LocalTieredStorage, indexes empty.

    Args:
        folder: The folder of the partition, without a slash at its end.
        start: First offset.
        log: The batches.
        epochs: The checkpoint's entries.
        name: Tells apart segments of one start.
    """
    made = uuid.uuid5(uuid.NAMESPACE_OID, f"{folder}{start}{name}").bytes
    stem = f"{folder}/{start:020d}-{uuid_text(made)}"
    entries = "".join(f"{epoch} {first}\n" for epoch, first in epochs)
    return {
        f"{stem}.log": log,
        f"{stem}.index": b"",
        f"{stem}.timeindex": b"",
        f"{stem}.snapshot": empty_snapshot(),
        f"{stem}.leader_epoch_checkpoint": f"0\n{len(epochs)}\n{entries}".encode(),
    }


def empty_snapshot() -> bytes:
    """Encode a producer snapshot of no producers."""
    content = (0).to_bytes(4, "big")
    crc = google_crc32c.value(content).to_bytes(4, "big")
    return b"\0\1" + bytes(crc) + content


def uuid_text(raw: bytes) -> str:
    """Write 16 bytes as Kafka writes an id."""
    return str(Uuid.from_bytes(raw))


def records(
    first: int, count: int, *, timestamp: int = 1_700_000_000_000, value: str = "v"
) -> list[WireRecord]:
    """Make records of rising offsets and timestamps; each value says its offset."""
    return [
        WireRecord(
            offset, timestamp + offset - first, None, f"{value}{offset}".encode()
        )
        for offset in range(first, first + count)
    ]
