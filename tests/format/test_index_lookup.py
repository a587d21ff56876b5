"""Looking into the bytes of an index gives what the parsed index gives."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieredfs.format.index.lookup import OffsetLookup, TimeLookup
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.time import TimeIndex
from tieredfs.format.index.wire_ranks import _PythonRanks, wire_ranks

INT32 = st.integers(0, (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
BASES = st.integers(0, 1 << 62)


@st.composite
def offset_indexes(draw: st.DrawFn) -> bytes:
    relative = sorted(draw(st.sets(INT32, max_size=50)))
    positions = sorted(draw(st.sets(INT32.map(lambda n: n or 1), max_size=50)))
    pairs = zip(relative, positions, strict=False)
    return b"".join(struct.pack(">ii", *pair) for pair in pairs)


@st.composite
def time_indexes(draw: st.DrawFn) -> bytes:
    stamps = sorted(draw(st.sets(st.integers(0, (1 << 63) - 1), max_size=50)))
    offsets = sorted(draw(st.lists(INT32, min_size=len(stamps), max_size=len(stamps))))
    pairs = zip(stamps, offsets, strict=True)
    return b"".join(struct.pack(">qi", *pair) for pair in pairs)


@given(offset_indexes(), BASES, st.lists(INT64, max_size=20))
def test_an_offset_is_found_where_the_parsed_index_finds_it(
    data: bytes, base: int, asked: list[int]
) -> None:
    parsed = OffsetIndex.parse(data, base)
    held = OffsetLookup(data, base)
    near = [o + d for o in parsed.offsets.tolist() for d in (-1, 0, 1)]
    for offset in (*asked, *near):
        assert held.lookup(offset) == parsed.lookup(offset)
    many = np.array([o for o in (*asked, *near) if 0 <= o < 1 << 63], np.int64)
    expected = [parsed.lookup(offset).position for offset in many.tolist()]
    assert held.positions(many).tolist() == expected


@given(time_indexes(), BASES, st.lists(INT64, max_size=20))
def test_a_time_is_found_where_the_parsed_index_finds_it(
    data: bytes, base: int, asked: list[int]
) -> None:
    parsed = TimeIndex.parse(data, base)
    held = TimeLookup(data, base)
    near = [t + d for t in parsed.timestamps.tolist() for d in (-1, 0, 1)]
    for timestamp in (*asked, *near):
        assert held.lookup(timestamp) == parsed.lookup(timestamp)


@given(st.sampled_from([(8, 4), (12, 8), (34, 8), (4, 4)]), st.data())
def test_both_kernels_rank_alike(shape: tuple[int, int], data: st.DataObject) -> None:
    size, width = shape
    limit = 1 << (8 * width - 1)
    keys = sorted(data.draw(st.lists(st.integers(-limit, limit - 1), max_size=30)))
    raw = b"".join(
        key.to_bytes(width, "big", signed=True) + bytes(size - width) for key in keys
    )
    raw += bytes(data.draw(st.integers(0, size - 1)))
    asked = data.draw(st.lists(st.integers(-(1 << 70), 1 << 70), max_size=20)) + keys
    chosen, python = wire_ranks(raw, size, width), _PythonRanks(raw, size, width)
    for number in asked:
        expected = sum(key <= number for key in keys)
        assert chosen.of(number) == python.of(number) == expected
    many = np.array([n for n in asked if -(1 << 63) <= n < 1 << 63], np.int64)
    ranks = [np.empty(len(many), np.int64) for _ in range(2)]
    chosen.of_all(many, ranks[0])
    python.of_all(many, ranks[1])
    assert ranks[0].tolist() == ranks[1].tolist()
    assert ranks[0].tolist() == [sum(key <= n for key in keys) for n in many.tolist()]


def test_ranks_have_to_have_room() -> None:
    ranks = wire_ranks(bytes(8), 8, 4)
    with pytest.raises(ValueError, match=r"too small|broadcast"):
        ranks.of_all(np.zeros(2, np.int64), np.zeros(1, np.int64))
