"""Which indexes both writable layouts take, and that they store what they checked."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from typing_extensions import override

from support.kafka_data import KAFKA, LOCAL, REMOTE
from support.segments import empty_snapshot, records
from support.wire import encode_batch
from tieredfs import (
    CorruptBatchError,
    CorruptIndexError,
    IndexType,
    LogSegmentData,
    ObjectStore,
    RemoteStorageManager,
    SegmentMetadata,
    open_storage,
)
from tieredfs.format.index.producer_snapshot import ProducerSnapshot, ProducerState
from tieredfs.testing.samples import PARTITIONS, sample

LAYOUTS = ("single-object", "kafka-local")
TIERED = sorted(folder.parent.name for folder in KAFKA.glob(f"*/{REMOTE}"))
ONE = sample(PARTITIONS[0], 1)

layouts = pytest.mark.parametrize("layout", LAYOUTS)


def real_segments(
    source: RemoteStorageManager,
) -> Iterator[tuple[SegmentMetadata, LogSegmentData]]:
    """Yield the closed segments of a storage as they are, nothing made anew."""
    for partition in source.list_partitions():
        for listed in source.list_segments(partition):
            if source.is_active(listed):
                continue
            indexes = source.fetch_all_indexes(listed)
            given = {kind: bytes(indexes[kind]) for kind in indexes}
            log = source.fetch_log_segment(listed)
            yield source.describe(listed), LogSegmentData(log, given)


def copied_indexes(
    store: ObjectStore, layout: str, indexes: Mapping[IndexType, bytes]
) -> dict[IndexType, bytes]:
    """Copy the sample with other indexes; return those that are there afterwards."""
    storage = open_storage(store, layout)
    storage.copy_log_segment(ONE.metadata, replace(ONE.data, indexes=indexes))
    (listed,) = storage.list_segments(ONE.metadata.partition)
    found = storage.fetch_all_indexes(listed)
    return {kind: bytes(found[kind]) for kind in found}


@layouts
@pytest.mark.parametrize("topic", TIERED)
def test_the_indexes_of_every_tiered_segment_are_taken(
    memory: ObjectStore, topic: str, layout: str
) -> None:
    target = open_storage(memory, layout)
    source = open_storage(ObjectStore(str(KAFKA / topic / REMOTE)), "kafka-local")
    copied = [target.copy_log_segment(*each) for each in real_segments(source)]
    assert copied


def test_the_indexes_of_a_cleaned_log_are_taken(memory: ObjectStore) -> None:
    target = open_storage(memory, "single-object")
    source = open_storage(ObjectStore(str(KAFKA / "compacted" / LOCAL)), "kafka-log")
    copied = [target.copy_log_segment(*each) for each in real_segments(source)]
    assert len(copied) > 1


@layouts
@pytest.mark.parametrize(
    "indexes",
    [
        {IndexType.OFFSET: b"", IndexType.TIMESTAMP: b""},
        {IndexType.LEADER_EPOCH: b"0\n1\n0 39\n"},
        {IndexType.LEADER_EPOCH: b"0\n2\n0 0\n1 40\n"},
        {IndexType.PRODUCER_SNAPSHOT: empty_snapshot()},
    ],
    ids=["empty", "epochs that begin late", "epochs that go on", "expired producer"],
)
def test_what_brokers_write_of_a_segment_is_taken(
    memory: ObjectStore, layout: str, indexes: Mapping[IndexType, bytes]
) -> None:
    given = {**ONE.data.indexes, **indexes}
    assert copied_indexes(memory, layout, given) == given


def test_a_snapshot_may_know_of_records_that_the_cleaner_took_out_of_a_batch(
    memory: ObjectStore,
) -> None:
    log = encode_batch(
        records(0, 5), producer_id=7, producer_epoch=0, base_sequence=0
    ) + encode_batch(
        base_offset=5,
        last_offset=9,
        producer_id=7,
        producer_epoch=0,
        base_sequence=5,
    )
    wrote = ProducerState(7, 0, 9, 9, 4, 0, -1, -1)
    snapshot = {IndexType.PRODUCER_SNAPSHOT: ProducerSnapshot((wrote,)).encode()}
    segment = replace(ONE.metadata, start_offset=0, end_offset=9)
    storage = open_storage(memory, "single-object")
    storage.copy_log_segment(segment, LogSegmentData(log, snapshot))
    (listed,) = storage.list_segments(segment.partition)
    assert dict(storage.fetch_all_indexes(listed)) == snapshot


@layouts
def test_a_log_with_an_abort_and_without_its_index_is_refused(
    memory: ObjectStore, layout: str
) -> None:
    given = dict(ONE.data.indexes)
    del given[IndexType.TRANSACTION]
    with pytest.raises(CorruptIndexError, match=r"orders-0/.*TRANSACTION.*an abort"):
        copied_indexes(memory, layout, given)
    assert not list(memory.list())


class ReplacesTheLog(ObjectStore):
    """A store that is slow: meanwhile the log is another one under its name."""

    log: Path
    in_place: bool

    @override
    def put(
        self, key: str, data: bytes | bytearray | memoryview, *, overwrite: bool
    ) -> None:
        other = bytes(len(ONE.log))
        if not self.in_place:
            self.log.unlink()
        self.log.write_bytes(other)
        super().put(key, data, overwrite=overwrite)


@layouts
@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("in_memory", [0, 1 << 20])
def test_what_is_stored_is_what_was_checked(
    memory: ObjectStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    layout: str,
    in_place: bool,
    in_memory: int,
) -> None:
    monkeypatch.setattr(
        "tieredfs.storage.segment_log.spool.MAX_MEMORY_BYTES", in_memory
    )
    store = ReplacesTheLog(memory.url)
    store.log, store.in_place = tmp_path / "0.log", in_place
    store.log.write_bytes(ONE.log)
    data = replace(ONE.data, log=store.log)
    open_storage(store, layout).copy_log_segment(ONE.metadata, data)
    storage = open_storage(memory, layout)
    (listed,) = storage.list_segments(ONE.metadata.partition)
    assert storage.fetch_log_segment(listed) == ONE.log


@layouts
def test_a_log_is_read_once(
    memory: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    """The first read gives wrong bytes: they are neither taken for right nor stored."""
    path = tmp_path / "0.log"
    path.write_bytes(ONE.log)
    read, seen = os.pread, set[int]()

    def wrong_at_first(descriptor: int, size: int, position: int) -> bytes:
        found = read(descriptor, size, position)
        if position in seen:
            return found
        seen.add(position)
        return found[:-1] + bytes([found[-1] ^ 1])

    monkeypatch.setattr("tieredfs.storage.segment_log.source.os.pread", wrong_at_first)
    with pytest.raises(CorruptBatchError):
        open_storage(memory, layout).copy_log_segment(
            ONE.metadata, replace(ONE.data, log=path)
        )
    assert not list(memory.list())
