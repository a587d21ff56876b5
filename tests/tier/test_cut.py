"""A part of a segment is what a broker could have written of these offsets."""

import struct
from collections.abc import Sequence
from dataclasses import replace

import pytest

from support.log_directories import ID
from support.segments import records, segment
from support.stores import fill
from support.wire import WireRecord, encode_batch, encode_wrapper
from tieredfs import ObjectStore, SegmentMetadata, TopicIdPartition
from tieredfs.errors import UnsupportedOperationError
from tieredfs.format.batch.header import BatchHeader
from tieredfs.log.pull.cut import CutSegment, cut_segment
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.segment_log.inspection import PriorState
from tieredfs.storage.segment_log.stream import read_batches

PARTITION = TopicIdPartition("t", 0, ID)
LAST_SEQUENCE = (1 << 31) - 1
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40


class Log:
    """A segment of one batch, or of several, from which parts are cut."""

    def __init__(self, store: ObjectStore, *batches: bytes) -> None:
        fill(store, segment(f"t-0-{ID}", 0, b"".join(batches)))
        self.storage = KafkaLocal(store)
        (listed,) = self.storage.list_segments(PARTITION)
        described = self.storage.describe(listed)
        self.segment: SegmentMetadata = replace(described, record_count=1)

    def cut(
        self, start: int, end: int
    ) -> tuple[CutSegment, bytes, Sequence[BatchHeader]]:
        """Return a part, its bytes, and the headers of its batches."""
        with cut_segment(self.storage, self.segment, start, end, PriorState()) as found:
            data = b"".join(found.log.pieces())
            batches = read_batches(found.log)
            return found, data, [batch.header for batch in batches]


def spans(headers: Sequence[BatchHeader]) -> list[tuple[int, int, int]]:
    return [(h.base_offset, h.last_offset, h.record_count) for h in headers]


def test_it_says_its_own_offsets_and_size_and_no_count(memory: ObjectStore) -> None:
    whole = [encode_batch(records(at, 10)) for at in (0, 10, 20)]
    found, data, headers = Log(memory, *whole).cut(10, 20)
    assert data == whole[1]
    assert spans(headers) == [(10, 19, 10)]
    metadata = found.metadata
    assert (metadata.start_offset, metadata.end_offset) == (10, 19)
    assert (metadata.size, metadata.record_count) == (len(whole[1]), None)


@pytest.mark.parametrize(("start", "end"), [(0, 5), (5, 10), (3, 4), (0, 1), (9, 10)])
def test_a_batch_on_both_sides_has_just_the_offsets_that_are_wanted(
    memory: ObjectStore, start: int, end: int
) -> None:
    log = Log(memory, encode_batch(records(0, 10)))
    _, _, headers = log.cut(start, end)
    assert spans(headers) == [(start, end - 1, end - start)]


def test_offsets_whose_records_are_gone_still_belong_to_the_batch(
    memory: ObjectStore,
) -> None:
    log = Log(memory, encode_batch(records(2, 3), base_offset=0, last_offset=9))
    _, _, headers = log.cut(1, 8)
    assert spans(headers) == [(1, 7, 3)]
    _, _, headers = log.cut(6, 8)
    assert spans(headers) == [(6, 7, 0)]


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
@pytest.mark.parametrize(
    "attributes",
    [
        0,
        LOG_APPEND_TIME,
        TRANSACTIONAL,
        TRANSACTIONAL | DELETE_HORIZON,
    ],
)
def test_a_batch_that_is_written_anew_keeps_what_its_header_says(
    memory: ObjectStore, codec: str, attributes: int
) -> None:
    batch = encode_batch(
        records(0, 10),
        codec=codec,
        attributes=attributes,
        leader_epoch=0,
        producer_id=7,
        producer_epoch=3,
        base_sequence=40,
    )
    log = Log(memory, batch)
    (before,) = log.cut(0, 10)[2]
    (after,) = log.cut(4, 8)[2]
    assert (after.attributes, after.codec) == (before.attributes, before.codec)
    assert after.leader_epoch == before.leader_epoch == 0
    assert (after.producer_id, after.producer_epoch) == (7, 3)
    assert after.delete_horizon_ms == before.delete_horizon_ms
    assert (after.delete_horizon_ms is not None) == bool(attributes & DELETE_HORIZON)
    assert after.base_sequence == 44


def test_a_marker_stays_one(memory: ObjectStore) -> None:
    commit = WireRecord(5, 1, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 0))
    batch = encode_batch(
        [commit],
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=7,
        producer_epoch=3,
        base_offset=0,
        last_offset=9,
    )
    (header,) = Log(memory, batch).cut(4, 8)[2]
    assert header.is_control
    assert header.is_transactional
    assert spans([header]) == [(4, 7, 1)]


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [(-1, -1), (0, 4), (LAST_SEQUENCE, 3), (LAST_SEQUENCE - 4, LAST_SEQUENCE)],
)
def test_sequences_go_on_at_zero_behind_the_largest(
    memory: ObjectStore, sequence: int, expected: int
) -> None:
    producer = 7 if sequence >= 0 else -1
    batch = encode_batch(
        records(0, 10),
        base_sequence=sequence,
        producer_id=producer,
        producer_epoch=0 if sequence >= 0 else -1,
    )
    (header,) = Log(memory, batch).cut(4, 8)[2]
    assert header.base_sequence == expected


@pytest.mark.parametrize("magic", [0, 1])
def test_a_batch_of_an_old_format_is_not_cut(memory: ObjectStore, magic: int) -> None:
    old = encode_wrapper([WireRecord(n, 1, b"k", b"v") for n in range(4)], magic)
    log = Log(memory, old, encode_batch(records(4, 4)))
    with pytest.raises(UnsupportedOperationError, match=rf"v{magic} cannot be cut"):
        log.cut(2, 8)
    assert spans(log.cut(4, 6)[2]) == [(4, 5, 2)]
