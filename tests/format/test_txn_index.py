"""The transaction index: what is valid, and the collecting of aborts."""

import struct

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tieredfs.errors import CorruptIndexError, UnsupportedFormatError
from tieredfs.format.index.txn import AbortedTransaction, TransactionIndex


def _bytes(*entries: tuple[int, int, int, int], version: int = 0) -> bytes:
    return b"".join(struct.pack(">hqqqq", version, *entry) for entry in entries)


@st.composite
def aborts(draw: st.DrawFn) -> list[AbortedTransaction]:
    """Draw aborted transactions in the order of their markers."""
    lasts = sorted(draw(st.lists(st.integers(1, 60), unique=True, max_size=8)))
    return [
        AbortedTransaction(
            draw(st.integers(0, 3)),
            draw(st.integers(0, last - 1)),
            last,
            draw(st.integers(0, last + 1)),
        )
        for last in lasts
    ]


@given(aborts())
def test_entries_come_out_as_they_were_written(
    entries: list[AbortedTransaction],
) -> None:
    assert TransactionIndex.parse(_bytes(*entries), 0).entries == tuple(entries)


@given(aborts())
def test_what_is_written_is_the_bytes_of_the_format(
    entries: list[AbortedTransaction],
) -> None:
    assert TransactionIndex(tuple(entries)).encode() == _bytes(*entries)


@given(aborts(), st.integers(0, 70), st.integers(0, 70))
def test_aborts_that_touch_a_range_are_collected(
    entries: list[AbortedTransaction], start: int, width: int
) -> None:
    end = start + width
    found = TransactionIndex.parse(_bytes(*entries), 0).collect(start, end)
    # Kafka reads up to the first entry below which no transaction before `end` is open.
    stop = [n for n, e in enumerate(entries, 1) if e.last_stable_offset >= end]
    read = entries[: stop[0]] if stop else entries
    touching = [e for e in read if e.first_offset < end and e.last_offset >= start]
    assert list(found.aborted) == touching
    assert found.is_complete == bool(stop)


def test_an_empty_index_does_not_end_the_search() -> None:
    found = TransactionIndex.parse(b"", 7).collect(7, 9)
    assert (found.aborted, found.is_complete) == ((), False)


@pytest.mark.parametrize("size", [1, 33, 35, 67])
def test_a_broken_length_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptIndexError, match=rf"^x: {size} bytes .* multiple of 34"):
        TransactionIndex.parse(bytes(size), 0, name="x")


@pytest.mark.parametrize("version", [1, -1, 0x0100, 0x7FFF])
def test_another_version_is_unsupported(version: int) -> None:
    with pytest.raises(
        UnsupportedFormatError, match=rf"^x: unsupported version {version} .* 0"
    ):
        TransactionIndex.parse(_bytes((1, 5, 9, 5), version=version), 0, name="x")


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([(0, 0, 0, 0)], id="zeros"),
        pytest.param([(1, 5, 9, 5), (0, 0, 0, 0)], id="zeros at the end"),
        pytest.param([(1, 5, 9, 5), (2, 6, 9, 5)], id="a marker twice"),
        pytest.param([(1, 5, 9, 5), (2, 6, 8, 5)], id="markers that decrease"),
        pytest.param([(1, 9, 9, 5)], id="a marker that is its own first record"),
        pytest.param([(1, 10, 9, 5)], id="an end before the beginning"),
        pytest.param([(1, -1, 9, 5)], id="a negative beginning"),
        pytest.param([(1, 5, 9, -1)], id="a negative stable offset"),
        pytest.param([(1, 5, 9, 11)], id="a stable offset past the marker"),
        pytest.param([(-1, 5, 9, 5)], id="no producer"),
        pytest.param([(1, 1, 3, 1)], id="an end before the segment"),
    ],
)
def test_an_entry_that_is_not_an_aborted_transaction_is_corrupt(
    entries: list[tuple[int, int, int, int]],
) -> None:
    with pytest.raises(CorruptIndexError, match=r"^x: .*entry \d"):
        TransactionIndex.parse(_bytes(*entries), 4, name="x")


def test_a_transaction_may_begin_before_the_segment() -> None:
    data = _bytes((1, 5, 1000, 5))
    assert TransactionIndex.parse(data, 1000).entries == ((1, 5, 1000, 5),)
