"""Every drawn segment is one that a broker could have written."""

from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from tieredfs import (
    IndexType,
    SegmentId,
    TieredFSError,
    TopicIdPartition,
    UnsupportedOperationError,
)
from tieredfs.format.index.parse import parse_index
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.format.index.txn import TransactionIndex
from tieredfs.integers import MAX_INT32, MAX_INT64
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.storage.segment_log.inspection import inspect_copy
from tieredfs.storage.segment_log.source import log_in_memory
from tieredfs.testing.samples import Sample
from tieredfs.testing.segment_plan import SegmentPlan, build_segment
from tieredfs.testing.stores import scratch_store
from tieredfs.testing.strategies import (
    hostile_bytes,
    partitions,
    plans,
    segments,
    start_offsets,
)

ID = SegmentId.from_bytes(bytes(15) + b"\2")
FOUND = settings(max_examples=5000, phases=[Phase.generate], database=None)
"""To find one of a kind, whichever."""


def copied(layout: type[RemoteStorageManager], one: Sample) -> None:
    """Copy a segment, and read it back by another storage."""
    with scratch_store() as store:
        layout(store).copy_log_segment(one.metadata, one.data)
        storage = layout(store)
        assert storage.list_partitions() == [one.metadata.partition]
        (listed,) = storage.list_segments(one.metadata.partition)
        described = storage.describe(listed)
        assert replace(described, version="", custom_metadata=b"") == one.described
        assert storage.fetch_log_segment(listed) == one.log
        assert dict(storage.fetch_all_indexes(listed)) == one.data.indexes


@given(segments() | segments(is_compacted=True))
def test_a_drawn_segment_passes_the_inspection_of_a_copy(one: Sample) -> None:
    measured = replace(one.metadata, size=len(one.log))
    log = log_in_memory(one.log, "drawn")
    found = inspect_copy(log, lambda _: None, measured, one.data.indexes)
    assert found.facts.max_timestamp_ms == one.described.max_timestamp_ms


@given(segments() | segments(is_compacted=True))
def test_the_native_layout_stores_every_drawn_segment(one: Sample) -> None:
    copied(SingleObject, one)


@given(segments())
def test_kafkas_layout_stores_every_drawn_segment_without_holes(one: Sample) -> None:
    copied(KafkaLocal, one)


@given(partitions(), start_offsets(), plans(is_compacted=True))
def test_kafkas_layout_refuses_exactly_the_compacted_ones(
    partition: TopicIdPartition, start: int, plan: SegmentPlan
) -> None:
    one = build_segment(partition, ID, start, plan)
    if plan.is_compacted:
        with pytest.raises(UnsupportedOperationError, match="compacted"):
            copied(KafkaLocal, one)
    else:
        copied(KafkaLocal, one)


def aborts_of(one: Sample) -> TransactionIndex:
    index = one.data.indexes.get(IndexType.TRANSACTION, b"")
    return TransactionIndex.parse(index, one.metadata.start_offset)


def opened(one: Sample) -> list[int]:
    """Return where the transactions began that are open at the end."""
    index = one.data.indexes[IndexType.PRODUCER_SNAPSHOT]
    firsts = (
        p.transaction_first_offset for p in ProducerSnapshot.parse(index).producers
    )
    return [first for first in firsts if first >= 0]


KINDS = {
    "an abort": lambda s: aborts_of(s).entries,
    "an abort of what began before": lambda s: any(
        e.first_offset < s.metadata.start_offset for e in aborts_of(s).entries
    ),
    "two aborts": lambda s: len(aborts_of(s).entries) > 1,
    "an open transaction": opened,
    "no entry of the offset index": lambda s: not s.data.indexes[IndexType.OFFSET],
    "entries of the offset index": lambda s: len(s.data.indexes[IndexType.OFFSET]) > 8,
    "no entry of the time index": lambda s: not s.data.indexes[IndexType.TIMESTAMP],
    "the last timestamp": lambda s: s.described.max_timestamp_ms == MAX_INT64,
    "three epochs": lambda s: len(s.described.leader_epochs) > 2,
    "the last epoch": lambda s: s.described.leader_epochs[-1].epoch >= MAX_INT32 - 2,
    "offsets beyond 32 bits": lambda s: s.metadata.start_offset > MAX_INT32,
    "the last offsets": lambda s: s.metadata.start_offset > MAX_INT64 - 5000,
    "a long name": lambda s: len(s.metadata.partition.topic) == 249,
    "the last partition": lambda s: s.metadata.partition.partition == MAX_INT32,
}


@pytest.mark.parametrize("kind", KINDS)
def test_segments_of_every_kind_are_drawn(kind: str) -> None:
    find(segments(), KINDS[kind], settings=FOUND)


@pytest.mark.parametrize("seed", range(2))
def test_a_segment_shrinks_to_one_record_of_the_first_partition(seed: int) -> None:
    one = find(
        segments(),
        lambda _: True,
        settings=settings(database=None),
        random=Random(seed),  # noqa: S311 - repeatable, not secret
    )
    assert one.metadata.end_offset == one.metadata.start_offset == 0
    assert one.metadata.partition.partition == 0
    assert len(one.log) < 80


@given(st.data())
def test_hostile_indexes_are_parsed_or_refused_with_an_error_of_ours(
    data: st.DataObject,
) -> None:
    one = data.draw(segments())
    kind = data.draw(st.sampled_from(sorted(one.data.indexes)))
    harmed = data.draw(hostile_bytes(one.data.indexes[kind]))
    start, end = one.metadata.start_offset, one.metadata.end_offset or 0
    with suppress(TieredFSError):
        parse_index(kind, harmed, start, end, len(one.log))


@given(segments(), st.data())
def test_hostile_bytes_differ_from_what_was_valid(
    one: Sample, data: st.DataObject
) -> None:
    assert isinstance(data.draw(hostile_bytes()), bytes)
    assert len(data.draw(hostile_bytes(one.log))) < 2 * len(one.log) + 65
