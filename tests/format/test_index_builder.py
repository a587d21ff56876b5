"""Indexes made from a log: valid, and they lead to what a full reading finds."""

from collections.abc import Sequence
from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given

from support.golden import headers_of
from support.wire import WireRecord, encode_batch
from tieredfs.errors import CorruptBatchError
from tieredfs.format.batch.header import BatchHeader
from tieredfs.format.index.builder import IndexBuilder
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.time import TimeIndex

_BASE = 1 << 40
_MAX_INT32 = (1 << 31) - 1


@st.composite
def segments(draw: st.DrawFn) -> list[BatchHeader]:
    """Draw the batches of a segment: gaps, jumps in time, times before 1970."""
    log, offset = b"", _BASE
    stamps = st.integers(-5, 60) | st.integers(-(1 << 63), (1 << 63) - 1)
    for _ in range(draw(st.integers(0, 25))):
        offset += draw(st.integers(0, 3))
        log += encode_batch(
            [WireRecord(offset, draw(stamps), None, bytes(draw(st.integers(0, 90))))],
            last_offset=offset + draw(st.integers(0, 3)),
        )
        *_, last = headers_of(log)
        offset = last.last_offset + 1
    return list(headers_of(log))


def _built(
    headers: Sequence[BatchHeader], interval: int
) -> tuple[OffsetIndex, TimeIndex]:
    builder = IndexBuilder(_BASE, interval_bytes=interval)
    for header in headers:
        builder.add(header)
    end = headers[-1].last_offset if headers else _BASE - 1
    size = headers[-1].end if headers else 0
    return (
        OffsetIndex.parse(builder.offset_index(), _BASE, end_offset=end, log_size=size),
        TimeIndex.parse(builder.time_index(), _BASE, end_offset=end),
    )


@given(segments(), st.integers(0, 500))
def test_every_offset_is_found_from_where_the_index_leads(
    headers: list[BatchHeader], interval: int
) -> None:
    index, _ = _built(headers, interval)
    starts = {header.position for header in headers} | {0}
    for header in headers:
        for offset in (header.base_offset, header.last_offset):
            position = index.lookup(offset).position
            assert position in starts
            assert position <= header.position


@given(segments(), st.integers(0, 500))
def test_every_batch_before_the_one_a_time_leads_to_is_older(
    headers: list[BatchHeader], interval: int
) -> None:
    offsets, times = _built(headers, interval)
    for stamp in {h.max_timestamp + near for h in headers for near in (-1, 0, 1)}:
        position = offsets.lookup(times.lookup(stamp).offset).position
        skipped = [h for h in headers if h.end <= position]
        assert all(header.max_timestamp < stamp for header in skipped)


@given(segments(), st.integers(0, 500))
def test_a_time_index_ends_with_the_largest_timestamp(
    headers: list[BatchHeader], interval: int
) -> None:
    _, times = _built(headers, interval)
    largest = max((header.max_timestamp for header in headers), default=-1)
    if largest < 0:
        assert not len(times)
    else:
        first = next(h for h in headers if h.max_timestamp == largest)
        assert times.entry(-1) == (largest, first.last_offset)


@given(segments(), st.integers(0, 500))
def test_entries_are_more_than_the_interval_apart(
    headers: list[BatchHeader], interval: int
) -> None:
    index, _ = _built(headers, interval)
    positions = [0, *index.positions.tolist()]
    assert all(after - before > interval for before, after in pairwise(positions))


def test_a_segment_of_one_batch_has_no_offset_and_one_time() -> None:
    (header,) = headers_of(
        encode_batch([WireRecord(_BASE, 7), WireRecord(_BASE + 1, 9)])
    )
    offsets, times = _built([header], 0)
    assert len(offsets) == 0
    assert [times.entry(n) for n in range(len(times))] == [(9, _BASE + 1)]


@pytest.mark.parametrize("offset", [_BASE - 1, _BASE + _MAX_INT32 + 1])
def test_a_batch_that_is_not_of_the_segment_is_corrupt(offset: int) -> None:
    (header,) = headers_of(encode_batch([WireRecord(offset, 7)]))
    with pytest.raises(CorruptBatchError, match=f"offsets {offset} to {offset} "):
        IndexBuilder(_BASE).add(header)


def test_a_batch_further_than_an_index_reaches_is_corrupt() -> None:
    (header,) = headers_of(encode_batch([WireRecord(_BASE, 7)]), offset=1 << 31)
    with pytest.raises(
        CorruptBatchError, match="position 2147483648: the position is past 2147483647"
    ):
        IndexBuilder(_BASE).add(header)
