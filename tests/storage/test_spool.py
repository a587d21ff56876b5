"""What is put together in memory is stored as bytes, which need no other object.

A view of a BytesIO in a reference cycle, which a failed put's traceback is enough for,
ends Python 3.12.1 with a segmentation fault when the cycle is collected, and newer ones
complain (python/cpython#111049, #111331).
"""

import gc
import sys
from collections.abc import Callable

import pytest
from typing_extensions import override

from support.segments import empty_snapshot, records
from support.wire import encode_batch
from tieredfs import (
    IndexType,
    LogSegmentData,
    ObjectStore,
    RemoteStorageManager,
    SegmentId,
    SegmentMetadata,
    StorageUnavailableError,
    TopicIdPartition,
    Uuid,
    open_storage,
)

SEGMENT = SegmentMetadata(
    TopicIdPartition("t", 0, Uuid("dao62lTOQsGBPyjJLrpQKw")),
    SegmentId.from_bytes(bytes(range(16))),
    0,
    4,
)
LOG = encode_batch(records(0, 5))
DATA = LogSegmentData(
    LOG,
    {
        IndexType.OFFSET: b"",
        IndexType.TIMESTAMP: (1_700_000_000_004).to_bytes(8, "big") + b"\0\0\0\4",
        IndexType.PRODUCER_SNAPSHOT: empty_snapshot(),
        IndexType.LEADER_EPOCH: b"0\n1\n0 0\n",
    },
)

Write = Callable[[RemoteStorageManager], bytes]


def copy(storage: RemoteStorageManager) -> bytes:
    return storage.copy_log_segment(SEGMENT, DATA)


def append(storage: RemoteStorageManager) -> bytes:
    return storage.append_log_segment(SEGMENT, DATA)


ways = pytest.mark.parametrize(
    ("layout", "write"),
    [("kafka-local", copy), ("single-object", copy), ("single-object", append)],
)


class FullStore(ObjectStore):
    """Takes indexes but no log, and keeps what owns the bytes that it was to take."""

    owners: list[object]

    @override
    def put(
        self, key: str, data: bytes | bytearray | memoryview, *, overwrite: bool
    ) -> None:
        self._take(key, data)
        super().put(key, data, overwrite=overwrite)

    @override
    def put_new(self, prefix: str, data: bytes | bytearray | memoryview) -> str:
        self._take(prefix, data)
        return super().put_new(prefix, data)

    def _take(self, key: str, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        self.owners.append(view.obj)
        if len(view) < len(LOG):
            return
        error = StorageUnavailableError(f"put {key}: no room")
        # An error that is kept, with the frames that it passed, is a cycle.
        kept = [error]
        raise kept[0]


@pytest.fixture
def full(memory: ObjectStore) -> FullStore:
    store = FullStore(memory.url)
    store.owners = []
    return store


@ways
def test_what_a_store_is_given_is_bytes(
    full: FullStore, layout: str, write: Write
) -> None:
    with pytest.raises(StorageUnavailableError, match="no room"):
        write(open_storage(full, layout))
    assert full.owners
    assert all(isinstance(owner, bytes) for owner in full.owners)


@ways
def test_what_a_failed_write_leaves_is_collected_without_a_word(
    full: FullStore, layout: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    with pytest.raises(StorageUnavailableError, match="no room"):
        write(open_storage(full, layout))
    full.owners.clear()
    gc.collect()
    assert said == []
