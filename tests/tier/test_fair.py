"""Partitions read in turn: what each turn gives, and what is held meanwhile."""

import threading
import weakref
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.distant import distant
from support.kafka_data import KAFKA, REMOTE
from support.segments import records, segment
from support.stores import fill
from support.wire import WireRecord, encode_batch
from tieredfs import (
    CorruptBatchError,
    ObjectStore,
    Scan,
    SegmentMetadata,
    Tier,
    Topic,
    open_storage,
    open_tier,
)
from tieredfs.storage.layouts.kafka_local import KafkaLocal

if TYPE_CHECKING:
    from tieredfs.format.buffers import Buffer

_ID = "dao62lTOQsGBPyjJLrpQKw"
_MIB = 1 << 20


def _topic(store: ObjectStore, *, is_distant: bool = False) -> Topic:
    read = ObjectStore(distant(store.url)) if is_distant else store
    return Tier(open_storage(read, "kafka-local")).topic("t")


def _in_turns_of(scan: Scan, size: int) -> Scan:
    return replace(scan, plan=replace(scan.plan, fetch_size=size))


def _rows(scan: Scan) -> dict[int, list[tuple[int, bytes]]]:
    """Return offsets and values by partition, in the order in which they come."""
    found: dict[int, list[tuple[int, bytes]]] = {}
    for batch in scan:
        rows = zip(batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True)
        found.setdefault(batch["partition"][0].as_py(), []).extend(rows)
    return found


class _Watched(KafkaLocal):
    """Know which of the bytes that were fetched are still held."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.fetched: list[weakref.ref[npt.NDArray[np.uint8]]] = []

    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        found = np.array(super().fetch_log_segment(metadata, start, end, layout=layout))
        self.fetched.append(weakref.ref(found))
        return memoryview(cast("Buffer", found))

    def held(self) -> int:
        arrays = (reference() for reference in self.fetched)
        return sum(len(array) for array in arrays if array is not None)

    def held_at_most(self, scan: Iterable[pa.RecordBatch]) -> tuple[int, int]:
        """Return how many records a scan has, and the most bytes that it held."""
        self.fetched.clear()
        rows = held = 0
        for found in scan:
            rows += found.num_rows
            held = max(held, self.held())
        return rows, held


@pytest.mark.parametrize("partitions", [1, 8])
def test_what_is_held_does_not_grow_with_the_partitions(
    memory: ObjectStore, partitions: int
) -> None:
    batch = encode_batch(records(0, 10, value="v" * 50_000))
    log = batch + b"".join(
        encode_batch(records(start, 10, value="v" * 50_000))
        for start in range(10, 200, 10)
    )
    for number in range(partitions):
        fill(memory, segment(f"t-{number}-{_ID}", 0, log))
    storage = _Watched(memory)
    scan = Tier(storage).topic("t").scan(order="fair")
    rows, held = storage.held_at_most(scan)
    assert rows == 200 * partitions
    assert 0 < held <= scan.plan.fetch_size == 4 * _MIB


def test_what_is_held_does_not_grow_with_the_log(memory: ObjectStore) -> None:
    held = []
    for segments in (1, 4):
        folder = f"t{segments}-0-{_ID}"
        for start in range(0, segments * 200, 200):
            batches = [
                encode_batch(records(start + behind, 10, value="v" * 50_000))
                for behind in range(0, 200, 10)
            ]
            fill(memory, segment(folder, start, b"".join(batches)))
        storage = _Watched(memory)
        scan = _in_turns_of(Tier(storage).topic(f"t{segments}").scan(), _MIB)
        rows, most = storage.held_at_most(scan)
        assert rows == 200 * segments
        held.append(most)
    # Four pieces and the one that is read, and a batch of output. How many of them have
    # arrived depends on the threads, and of one segment all may.
    assert all(0 < most <= 6 * _MIB for most in held)


@settings(max_examples=40, deadline=None)
@given(
    batches=st.lists(
        st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(0, 200)),
        min_size=1,
        max_size=12,
    ),
    cuts=st.sets(st.integers(1, 11), max_size=3),
    size=st.integers(1, 1500),
    span=st.tuples(st.integers(0, 80), st.integers(0, 80)).map(sorted),
    is_distant=st.booleans(),
)
def test_turns_of_any_size_together_give_every_record_once_and_in_order(
    batches: list[tuple[int, int, int]],
    cuts: set[int],
    size: int,
    span: list[int],
    is_distant: bool,
) -> None:
    store = ObjectStore("memory://fair-any")
    store.delete([entry.key for entry in store.list()])
    written: list[tuple[int, bytes]] = []
    offset, start, log = 0, 0, b""
    for number, (count, hole, length) in enumerate(batches):
        if number in cuts and log:
            fill(store, segment(f"t-0-{_ID}", start, log))
            start, log = offset, b""
        is_last = number + 1 in {*cuts, len(batches)}
        if log and not is_last:  # a cleaner leaves holes inside a segment
            offset += hole
        rows = [
            WireRecord(o, 5, None, b"%d" % o * length)
            for o in range(offset, offset + count)
        ]
        written += [(row.offset, row.value or b"") for row in rows]
        log += encode_batch(rows)
        offset += count
    fill(store, segment(f"t-0-{_ID}", start, log))
    fill(store, segment(f"t-1-{_ID}", 0, encode_batch(records(0, 80))))
    first, end = (min(at, offset) for at in span)
    topic = _topic(store, is_distant=is_distant)
    scan = topic.scan(start={0: first}, end={0: end, 1: 3}, order="fair")
    found = _rows(_in_turns_of(scan, size))
    assert found.get(0, []) == [row for row in written if first <= row[0] < end]
    assert found[1] == [(o, b"v%d" % o) for o in range(3)]


@pytest.mark.parametrize("size", [1, 700, 5000, 1 << 20])
def test_what_brokers_wrote_is_the_same_in_turns(size: int) -> None:
    topic = open_tier(str(KAFKA / "two-partitions" / REMOTE)).topic("two-partitions")
    assert _rows(_in_turns_of(topic.scan(order="fair"), size)) == _rows(topic.scan())


@pytest.mark.parametrize("is_distant", [False, True])
def test_each_turn_takes_what_one_request_gives(
    memory: ObjectStore, is_distant: bool
) -> None:
    for number in range(3):
        batches = [encode_batch(records(start, 10)) for start in range(100, 140, 10)]
        fill(memory, segment(f"t-{number}-{_ID}", 100, b"".join(batches)))
    size = len(b"".join(batches[:2]))
    topic = _topic(memory, is_distant=is_distant)
    scan = _in_turns_of(topic.scan(order="fair"), size)
    turns = [n for n, _ in groupby(b["partition"][0].as_py() for b in scan)]
    assert turns == [0, 1, 2, 0, 1, 2]
    assert scan.plan.requests == 6


@pytest.mark.parametrize("is_distant", [False, True])
def test_short_segments_share_a_turn(memory: ObjectStore, is_distant: bool) -> None:
    for number in range(2):
        for start in range(100, 140, 10):
            log = encode_batch(records(start, 10))
            fill(memory, segment(f"t-{number}-{_ID}", start, log))
    topic = _topic(memory, is_distant=is_distant)
    scan = _in_turns_of(topic.scan(order="fair"), 2 * len(log))
    turns = [(b["partition"][0].as_py(), b.num_rows) for b in scan]
    assert turns == [(0, 20), (1, 20), (0, 20), (1, 20)]


@pytest.mark.parametrize("size", [1, 100, 10_000])
def test_a_batch_out_of_order_is_found_across_turns(
    memory: ObjectStore, size: int
) -> None:
    batches = [encode_batch(records(start, 10)) for start in range(100, 140, 10)]
    fill(memory, segment(f"t-0-{_ID}", 100, b"".join(batches)))
    scan = _in_turns_of(_topic(memory).scan(order="fair"), size)
    batches[1:3] = batches[2], batches[1]
    fill(memory, segment(f"t-0-{_ID}", 100, b"".join(batches)))
    with pytest.raises(CorruptBatchError, match="base offset 110 follows offset 129"):
        list(scan)


def test_the_parts_of_a_fair_scan_take_turns_of_the_same_size(
    memory: ObjectStore,
) -> None:
    for start in range(0, 40, 10):
        fill(memory, segment(f"t-0-{_ID}", start, encode_batch(records(start, 10))))
    scan = _in_turns_of(_topic(memory).scan(order="fair"), 77)
    parts = scan.split(1)
    assert [part.plan.fetch_size for part in parts] == [77] * 4


class _Together(KafkaLocal):
    """Answer requests for logs only when there are three at a time."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.barrier = threading.Barrier(3, timeout=20)

    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        self.barrier.wait()
        return super().fetch_log_segment(metadata, start, end, layout=layout)


def test_what_the_next_turns_need_is_downloaded_meanwhile(memory: ObjectStore) -> None:
    for number in range(3):
        batches = [encode_batch(records(start, 10)) for start in range(100, 140, 10)]
        fill(memory, segment(f"t-{number}-{_ID}", 100, b"".join(batches)))
    topic = Tier(_Together(ObjectStore(distant(memory.url)))).topic("t")
    scan = _in_turns_of(topic.scan(order="fair"), len(b"".join(batches[:2])))
    assert scan.to_table().num_rows == 3 * 40
    assert scan.stats.requests == scan.explain().reading
    assert scan.plan.requests == 6
