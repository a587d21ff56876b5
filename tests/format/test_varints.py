"""Kafka's varints, against a model that writes them bit by bit."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from support.wire import encode_varint
from tieredfs.format.varints import (
    VARINT,
    VARLONG,
    VarintError,
    read_varint,
    varints,
)
from tieredfs.format.varints import encode_varint as write_varint

_INT32S = st.integers(-(1 << 31), (1 << 31) - 1)
_INT64S = st.integers(-(1 << 63), (1 << 63) - 1)
_EDGES = [
    0,
    -1,
    1,
    63,
    64,
    -64,
    -65,
    8191,
    8192,
    -8192,
    -8193,
    (1 << 31) - 1,
    -(1 << 31),
]


def _many(
    data: bytes, positions: list[int], longest: int
) -> tuple[list[int], list[int]]:
    octets = np.frombuffer(data, np.uint8)
    values, ends = varints(octets, np.array(positions, np.int64), longest)
    return values.tolist(), ends.tolist()


def _positions(values: list[int], lead: bytes) -> tuple[bytes, list[int]]:
    data, positions = lead, []
    for value in values:
        positions.append(len(data))
        data += encode_varint(value)
    return data, positions


@given(_INT32S)
def test_a_varint_is_read_back(value: int) -> None:
    data = encode_varint(value)
    assert len(data) <= VARINT
    assert read_varint(memoryview(data), 0, len(data)) == (value, len(data))


@given(_INT64S | st.sampled_from(_EDGES))
def test_a_varint_is_written_as_the_model_writes_it(value: int) -> None:
    assert write_varint(value) == encode_varint(value)


@given(st.lists(_INT64S | st.sampled_from(_EDGES), min_size=1), st.binary(max_size=3))
def test_many_varlongs_are_read_back_at_once(values: list[int], lead: bytes) -> None:
    data, positions = _positions(values, lead)
    assert _many(data, positions, VARLONG) == (values, [*positions[1:], len(data)])


@given(st.lists(_INT32S, min_size=1), st.binary(max_size=3))
def test_one_at_a_time_and_many_at_once_agree(values: list[int], lead: bytes) -> None:
    data, positions = _positions(values, lead)
    one = [read_varint(memoryview(data), at, len(data)) for at in positions]
    assert list(zip(*_many(data, positions, VARINT), strict=True)) == one


@pytest.mark.parametrize(
    "value",
    [*_EDGES, (1 << 63) - 1, -(1 << 63), 1 << 34, -(1 << 34)],
)
def test_the_limits_of_each_length_are_read_back(value: int) -> None:
    data = encode_varint(value)
    assert _many(data, [0], VARLONG) == ([value], [len(data)])


def test_the_longest_varints_have_five_and_ten_bytes() -> None:
    assert len(encode_varint(-(1 << 31))) == VARINT
    assert len(encode_varint(-(1 << 63))) == VARLONG


@pytest.mark.parametrize("extra", [0, 1, 7])
@pytest.mark.parametrize("longest", [VARINT, VARLONG])
def test_a_varint_of_too_many_bytes_is_refused(longest: int, extra: int) -> None:
    data = b"\x80" * (longest + extra) + b"\x01"
    with pytest.raises(VarintError):
        _many(data, [0], longest)
    with pytest.raises(VarintError):
        read_varint(memoryview(data), 0, len(data))


def test_one_overlong_varint_among_many_is_refused() -> None:
    data, positions = _positions([1, 2, 3], b"")
    positions.append(len(data))
    with pytest.raises(VarintError):
        _many(data + b"\xff" * 9, positions, VARINT)


def test_a_varint_padded_to_its_longest_form_is_read_as_java_does() -> None:
    data = b"\x82\x80\x80\x80\x00"
    assert read_varint(memoryview(data), 0, 5) == (1, 5)
    assert _many(data, [0], VARINT) == ([1], [5])


@given(_INT32S, st.data())
def test_a_varint_that_is_cut_off_is_refused(value: int, data: st.DataObject) -> None:
    stored = encode_varint(value)
    end = data.draw(st.integers(0, len(stored) - 1))
    with pytest.raises(VarintError):
        read_varint(memoryview(stored), 0, end)


@given(st.binary(min_size=1), st.lists(st.integers(0, 99), min_size=1))
def test_positions_past_the_end_are_never_read_there(
    data: bytes, positions: list[int]
) -> None:
    try:
        _, ends = _many(data, positions, VARLONG)
    except VarintError:
        return
    past = [end for at, end in zip(positions, ends, strict=True) if at >= len(data)]
    assert all(end > len(data) for end in past)
