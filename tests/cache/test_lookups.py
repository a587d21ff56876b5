"""Lookups through the cache give what the parsed indexes of real segments give."""

import tracemalloc
from collections.abc import Iterator
from functools import cache as once
from pathlib import Path

import numpy as np
import pytest

from cache.made import bytes_of
from support.kafka_data import KAFKA, REMOTE
from tieredfs import (
    IndexType,
    ObjectStore,
    RemoteStorageManager,
    SegmentIndexes,
    SegmentMetadata,
    open_storage,
)
from tieredfs.cache import CachedIndexes, IndexCachedStorage, RemoteIndexCache
from tieredfs.errors import TieredFSError
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.time import TimeIndex
from tieredfs.format.index.txn import TransactionIndex

TIERS = sorted(path.parent.name for path in KAFKA.glob(f"*/{REMOTE}"))


@once
def storage_of(tier: str) -> RemoteStorageManager:
    return open_storage(ObjectStore(str(KAFKA / tier / REMOTE)), "kafka-local")


def segments_of(storage: RemoteStorageManager) -> Iterator[SegmentMetadata]:
    for partition in storage.list_partitions():
        for segment in storage.survey(partition):
            if not isinstance(segment, TieredFSError):
                yield segment


def test_lookups_in_many_large_segments_hold_little_memory() -> None:
    entries = 1 << 18  # of a log of 1 GiB
    numbers = np.arange(1, entries + 1, dtype=">i4")
    data = np.column_stack([numbers, numbers]).astype(">i4").tobytes()
    indexes = SegmentIndexes({IndexType.OFFSET: memoryview(data)})
    held = [CachedIndexes(indexes, 0) for _ in range(40)]
    tracemalloc.start()
    try:
        for one in held:
            assert one.lookup_offset(entries) == (entries, entries)
        assert tracemalloc.get_traced_memory()[0] < 70 << 20
    finally:
        tracemalloc.stop()
    assert all(one.lookup_offset(5) == (5, 5) for one in held)


@pytest.mark.parametrize("tier", TIERS)
def test_all_real_segments(tier: str, tmp_path: Path) -> None:
    storage = storage_of(tier)
    cache = RemoteIndexCache(storage, tmp_path)
    for segment in segments_of(storage):
        true = storage.fetch_all_indexes(segment)
        found = cache.get(segment)
        assert bytes_of(found.indexes) == bytes_of(true)
        _check_lookups(cache, segment, {kind: bytes(true[kind]) for kind in true})


def _check_lookups(
    cache: RemoteIndexCache, segment: SegmentMetadata, true: dict[IndexType, bytes]
) -> None:
    base = segment.start_offset
    offsets = OffsetIndex.parse(true.get(IndexType.OFFSET, b""), base)
    times = TimeIndex.parse(true.get(IndexType.TIMESTAMP, b""), base)
    aborts = TransactionIndex.parse(true.get(IndexType.TRANSACTION, b""), base)
    asked = {base - 1, base, base + 1, 1 << 62}
    for entry in map(offsets.entry, range(len(offsets))):
        asked |= {entry.offset - 1, entry.offset, entry.offset + 1}
    each = [cache.lookup_offset(segment, offset) for offset in sorted(asked)]
    assert each == [offsets.lookup(offset) for offset in sorted(asked)]
    many = cache.lookup_offsets(segment, np.array(sorted(asked), np.int64))
    assert many.tolist() == [found.position for found in each]
    stamps = {0, 1 << 62}
    for stamp in map(times.entry, range(len(times))):
        stamps |= {stamp.timestamp - 1, stamp.timestamp, stamp.timestamp + 1}
    for at in stamps:
        for start in (0, base + 5, 1 << 62):
            floor = max(start, times.lookup(at).offset)
            found = cache.lookup_timestamp(segment, at, start)
            assert found == offsets.lookup(floor)
    for start in sorted(asked):
        for end in (start + 1, start + 1000):
            found_aborts = cache.aborted_transactions(segment, start, end)
            assert found_aborts == aborts.collect(start, end)


@pytest.mark.parametrize("tier", TIERS)
def test_a_storage_with_a_cache_gives_what_the_storage_gives(
    tier: str, tmp_path: Path
) -> None:
    storage = storage_of(tier)
    cached = IndexCachedStorage(storage, RemoteIndexCache(storage, tmp_path))
    assert cached.list_partitions() == storage.list_partitions()
    for segment in segments_of(storage):
        for kinds in ([IndexType.OFFSET], list(IndexType), []):
            found = cached.fetch_indexes(segment, kinds)
            assert bytes_of(found) == bytes_of(storage.fetch_indexes(segment, kinds))
        assert bytes_of(cached.fetch_all_indexes(segment)) == bytes_of(
            storage.fetch_all_indexes(segment)
        )
        for kind in IndexType:
            assert _answer(cached, segment, kind) == _answer(storage, segment, kind)


def _answer(
    storage: RemoteStorageManager, segment: SegmentMetadata, kind: IndexType
) -> bytes | type[TieredFSError]:
    try:
        return bytes(storage.fetch_index(segment, kind))
    except TieredFSError as error:
        return type(error)
