"""The offset and the time index: what is valid, and lookups against brute force."""

import pickle
import struct

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from tieredfs.errors import CorruptIndexError, TieredFSError
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.padding import without_padding
from tieredfs.format.index.time import TimeIndex

pytestmark = pytest.mark.usefixtures("each_kernel")

_BASE = (1 << 31) + 101337  # offsets that need 64 bits
_INT32_MAX = (1 << 31) - 1

_Pairs = list[tuple[int, int]]


def _offset_bytes(pairs: _Pairs) -> bytes:
    return b"".join(struct.pack(">ii", *pair) for pair in pairs)


def _time_bytes(pairs: _Pairs) -> bytes:
    return b"".join(struct.pack(">qi", *pair) for pair in pairs)


def _increasing(most: int, least: int = 0) -> st.SearchStrategy[list[int]]:
    values = st.integers(least, least + 60) | st.integers(least, most)
    return st.lists(values, unique=True, max_size=12).map(sorted)


@st.composite
def offset_entries(draw: st.DrawFn) -> _Pairs:
    """Draw relative offsets and positions, both increasing."""
    offsets, positions = draw(_increasing(_INT32_MAX)), draw(_increasing(_INT32_MAX, 1))
    return list(zip(offsets, positions, strict=False))


@st.composite
def time_entries(draw: st.DrawFn) -> _Pairs:
    """Draw increasing timestamps and relative offsets that never decrease."""
    stamps = draw(_increasing((1 << 63) - 1))
    offsets = st.lists(
        st.integers(0, 60) | st.integers(0, _INT32_MAX),
        min_size=len(stamps),
        max_size=len(stamps),
    )
    return list(zip(stamps, sorted(draw(offsets)), strict=True))


@given(offset_entries())
def test_an_offset_index_is_read_as_absolute_offsets(pairs: _Pairs) -> None:
    index = OffsetIndex.parse(_offset_bytes(pairs), _BASE)
    assert len(index) == len(pairs)
    found = [index.entry(number) for number in range(len(index))]
    assert found == [(_BASE + offset, position) for offset, position in pairs]


@given(offset_entries(), st.integers(-70, 70) | st.integers(0, 1 << 33))
def test_an_offset_lookup_is_the_last_entry_at_or_below(
    pairs: _Pairs, relative: int
) -> None:
    index = OffsetIndex.parse(_offset_bytes(pairs), _BASE)
    below = [(_BASE + o, p) for o, p in pairs if o <= relative]
    assert index.lookup(_BASE + relative) == (below[-1] if below else (_BASE, 0))


@given(offset_entries(), st.lists(st.integers(-70, 70) | st.integers(0, 1 << 33)))
def test_many_offsets_have_the_positions_of_each(
    pairs: _Pairs, relative: list[int]
) -> None:
    index = OffsetIndex.parse(_offset_bytes(pairs), _BASE)
    asked = np.array(relative, np.int64) + _BASE
    expected = [index.lookup(offset).position for offset in asked.tolist()]
    assert index.lookup_positions(asked).tolist() == expected


@given(offset_entries(), st.integers(0, 70) | st.integers(0, 1 << 33))
def test_an_upper_bound_is_the_first_entry_at_or_past(
    pairs: _Pairs, position: int
) -> None:
    index = OffsetIndex.parse(_offset_bytes(pairs), _BASE)
    past = [(_BASE + o, p) for o, p in pairs if p >= position]
    assert index.upper_bound(position) == (past[0] if past else None)


@given(offset_entries(), st.integers(-5, 70) | st.integers(0, 1 << 33))
def test_an_end_position_is_that_of_a_batch_past_the_end(
    pairs: _Pairs, relative: int
) -> None:
    # An entry is a batch's last offset and its position: the batch of the first entry
    # at or past the last offset wanted has ended where that of the next one begins.
    index = OffsetIndex.parse(_offset_bytes(pairs), _BASE)
    past = [p for o, p in pairs if o >= relative - 1]
    expected = past[1] if len(past) > 1 else None
    assert index.end_position(_BASE + relative) == expected


@given(time_entries())
def test_a_time_index_is_read_as_absolute_offsets(pairs: _Pairs) -> None:
    index = TimeIndex.parse(_time_bytes(pairs), _BASE)
    found = [index.entry(number) for number in range(len(index))]
    assert found == [(stamp, _BASE + offset) for stamp, offset in pairs]


@given(time_entries(), st.integers(-5, 70) | st.integers(-(1 << 63), (1 << 63) - 1))
def test_a_time_lookup_is_the_last_entry_at_or_before(
    pairs: _Pairs, stamp: int
) -> None:
    index = TimeIndex.parse(_time_bytes(pairs), _BASE)
    before = [(t, _BASE + o) for t, o in pairs if t <= stamp]
    assert index.lookup(stamp) == (before[-1] if before else (-1, _BASE))


@given(time_entries(), st.integers(-5, 70) | st.integers(-(1 << 63), (1 << 63) - 1))
def test_a_time_upper_bound_is_the_first_entry_at_or_past(
    pairs: _Pairs, stamp: int
) -> None:
    index = TimeIndex.parse(_time_bytes(pairs), _BASE)
    past = [(t, _BASE + o) for t, o in pairs if t >= stamp]
    assert index.upper_bound(stamp) == (past[0] if past else None)


def test_native_64_bit_arrays_come_out() -> None:
    offsets = OffsetIndex.parse(_offset_bytes([(1, 1)]), _BASE)
    times = TimeIndex.parse(_time_bytes([(1, 1)]), _BASE)
    for array in (offsets.offsets, offsets.positions, times.timestamps, times.offsets):
        assert array.dtype == np.dtype(np.int64)
        assert array.dtype.isnative


def test_an_empty_index_is_valid_and_answers_with_the_start() -> None:
    offsets, times = OffsetIndex.parse(b"", _BASE), TimeIndex.parse(b"", _BASE)
    assert (len(offsets), len(times)) == (0, 0)
    assert offsets.lookup(_BASE + 5) == (_BASE, 0)
    assert offsets.upper_bound(0) is None
    assert offsets.end_position(_BASE) is None
    assert times.lookup(5) == (-1, _BASE)


@pytest.mark.parametrize("size", [1, 7, 9, 12])
def test_an_offset_index_of_a_broken_length_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptIndexError, match=rf"^x: {size} bytes .* multiple of 8"):
        OffsetIndex.parse(bytes(size), 0, name="x")


@pytest.mark.parametrize("size", [1, 8, 11, 13])
def test_a_time_index_of_a_broken_length_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptIndexError, match=rf"^x: {size} bytes .* multiple of 12"):
        TimeIndex.parse(bytes(size), 0, name="x")


@pytest.mark.parametrize("entries", [1, 2, 500])
def test_an_index_of_zeros_is_corrupt(entries: int) -> None:
    with pytest.raises(CorruptIndexError, match=r"^x: "):
        OffsetIndex.parse(bytes(8 * entries), 0, name="x")
    if entries > 1:  # one time entry of zeros is the first millisecond of 1970
        with pytest.raises(CorruptIndexError, match=r"^x: "):
            TimeIndex.parse(bytes(12 * entries), 0, name="x")


@pytest.mark.parametrize(
    "pairs",
    [
        pytest.param([(5, 10), (5, 20)], id="an offset twice"),
        pytest.param([(5, 10), (4, 20)], id="an offset that decreases"),
        pytest.param([(5, 20), (6, 20)], id="a position twice"),
        pytest.param([(5, 20), (6, 10)], id="a position that decreases"),
        pytest.param([(-1, 20)], id="an offset below the segment"),
        pytest.param([(5, 0)], id="the first batch"),
        pytest.param([(5, -10)], id="a negative position"),
        pytest.param([(5, 10), (7, 20), (6, 30), (9, 40)], id="unsorted in the middle"),
    ],
)
def test_an_offset_index_that_does_not_increase_is_corrupt(pairs: _Pairs) -> None:
    with pytest.raises(CorruptIndexError, match=r"^x: .* in entry \d"):
        OffsetIndex.parse(_offset_bytes(pairs), _BASE, name="x")


@pytest.mark.parametrize(
    "pairs",
    [
        pytest.param([(10, 5), (10, 6)], id="a time twice"),
        pytest.param([(10, 5), (9, 6)], id="a time that decreases"),
        pytest.param([(10, 5), (11, 4)], id="an offset that decreases"),
        pytest.param([(10, 5), (11, 6), (12, 5)], id="an offset that decreases by one"),
        pytest.param([(10, -1)], id="an offset below the segment"),
        pytest.param([(-1, 1)], id="a negative time"),
    ],
)
def test_a_time_index_that_does_not_increase_is_corrupt(pairs: _Pairs) -> None:
    with pytest.raises(CorruptIndexError, match=r"^x: .* in entry \d"):
        TimeIndex.parse(_time_bytes(pairs), _BASE, name="x")


def test_the_error_names_the_values_that_do_not_increase() -> None:
    with pytest.raises(CorruptIndexError, match="offset 7 in entry 1 follows 9"):
        OffsetIndex.parse(_offset_bytes([(9, 1), (7, 2)]), _BASE)
    with pytest.raises(CorruptIndexError, match="offset 7 in entry 1 follows 9"):
        TimeIndex.parse(_time_bytes([(1, 9), (2, 7)]), _BASE)


def test_a_position_past_the_log_is_corrupt() -> None:
    data = _offset_bytes([(1, 50), (2, 100)])
    assert len(OffsetIndex.parse(data, _BASE, log_size=101)) == 2
    with pytest.raises(
        CorruptIndexError, match="position 100 is past the end of the log of 100"
    ):
        OffsetIndex.parse(data, _BASE, log_size=100)


def test_an_offset_past_the_segment_is_corrupt() -> None:
    offsets, times = _offset_bytes([(2, 100)]), _time_bytes([(7, 2)])
    assert len(OffsetIndex.parse(offsets, _BASE, end_offset=_BASE + 2)) == 1
    assert len(TimeIndex.parse(times, _BASE, end_offset=_BASE + 2)) == 1
    for parse, data in ((OffsetIndex.parse, offsets), (TimeIndex.parse, times)):
        with pytest.raises(
            CorruptIndexError, match=f"{_BASE + 2} is past the segment's last"
        ):
            parse(data, _BASE, end_offset=_BASE + 1)


@pytest.mark.parametrize("base", [(1 << 63) - 1, 1 << 63, 10**20 - 1])
def test_an_offset_past_64_bits_is_a_typed_error(base: int) -> None:
    with pytest.raises(TieredFSError):
        OffsetIndex.parse(_offset_bytes([(1, 100)]), base)
    with pytest.raises(TieredFSError):
        TimeIndex.parse(_time_bytes([(7, 1)]), base)


@given(offset_entries(), st.integers(0, 100), st.integers(0, 7))
def test_padding_of_an_offset_index_is_cut(
    pairs: _Pairs, padding: int, rest: int
) -> None:
    data = _offset_bytes(pairs)
    assert without_padding(data + bytes(8 * padding + rest), 8) == data


@given(time_entries(), st.integers(0, 100), st.integers(0, 11))
def test_padding_of_a_time_index_is_cut(pairs: _Pairs, padding: int, rest: int) -> None:
    kept = [pair for pair in pairs if pair != (0, 0)]
    data = _time_bytes(kept)
    assert without_padding(data + bytes(12 * padding + rest), 12) == data


def test_bytes_that_are_no_entry_are_kept_for_the_parser_to_refuse() -> None:
    data = _offset_bytes([(1, 100)]) + b"\0\0\1"
    assert without_padding(data, 8) == data


def test_an_index_can_be_pickled_and_still_looked_into() -> None:
    offsets = OffsetIndex(7, np.array([9, 12]), np.array([100, 200]))
    times = TimeIndex(7, np.array([5, 6]), np.array([9, 12]))
    copies = pickle.loads(pickle.dumps((offsets, times)))  # noqa: S301 - our own bytes
    assert [copy.lookup(11) for copy in copies] == [(9, 100), (6, 12)]


def test_a_number_of_more_than_64_bits_is_above_or_below_all() -> None:
    index = OffsetIndex(7, np.array([9, 12]), np.array([100, 200]))
    assert index.lookup(1 << 70) == (12, 200)
    assert index.lookup(-(1 << 70)) == (7, 0)
    assert OffsetIndex(7, *np.empty((2, 0), np.int64)).lookup(1 << 70) == (7, 0)
