"""Both ways to write records: the same bytes and errors for whatever Arrow holds."""

import importlib.util
from typing import Any

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given

from support.golden import decode
from tieredfs.errors import InvalidArgumentError
from tieredfs.format.buffers import Int64Array
from tieredfs.format.compression.codec import Codec
from tieredfs.format.kernel.select import KERNEL_SETTING, Kernel, chosen_kernel
from tieredfs.format.records.schema import HEADERS
from tieredfs.format.records.writer import BatchOptions, encode_batch
from tieredfs.format.varints import encode_varint, encode_varints, varint_sizes

_compiled = pytest.mark.skipif(
    importlib.util.find_spec("tieredfs.format.kernel._kernel") is None,
    reason="the kernel is not compiled: install a C compiler",
)
_INT64S = st.integers(-(1 << 63), (1 << 63) - 1)
_STAMPS = st.integers(0, 300) | _INT64S
_PAYLOADS = st.none() | st.binary(max_size=40) | st.binary(min_size=60, max_size=200)
_KINDS = [pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.binary())]
_HEADER = st.fixed_dictionaries({"key": st.text(max_size=9), "value": _PAYLOADS})
_KEYLESS = st.none() | st.just({"key": None, "value": b"v"})


def _outcome(
    kernel: Kernel, records: pa.RecordBatch, options: BatchOptions
) -> bytes | str:
    """Encode by a kernel: the bytes that come out, or the error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KERNEL_SETTING, kernel)
        chosen_kernel.cache_clear()
        try:
            return _encode(records, options)
        except InvalidArgumentError as error:
            return str(error)
        finally:
            chosen_kernel.cache_clear()


def _encode(records: pa.RecordBatch, options: BatchOptions | None = None) -> bytes:
    """Encode records, or a batch that has none left."""
    if records.num_rows:
        return encode_batch(records, options)
    return encode_batch(records, options, base_offset=5, last_offset=9)


@st.composite
def payload_arrays(draw: st.DrawFn, rows: int) -> pa.Array:
    """Draw an array of bytes that begins anywhere in its buffers."""
    before = draw(st.lists(_PAYLOADS, max_size=9))
    held = draw(st.lists(_PAYLOADS, min_size=rows, max_size=rows))
    after = draw(st.lists(_PAYLOADS, max_size=2))
    array = pa.array(before + held + after, draw(st.sampled_from(_KINDS)))
    return array.slice(len(before), rows)


@st.composite
def header_arrays(draw: st.DrawFn, rows: int) -> pa.Array:
    """Draw lists of headers: null ones hold some too, and all begin anywhere."""
    few = draw(st.booleans())
    header = _HEADER if few else _HEADER | _KEYLESS
    skipped = draw(st.integers(0, 2))
    held = draw(st.lists(header, min_size=skipped, max_size=12))
    headers = pa.array(held, HEADERS.value_type)[skipped:]
    ends = st.lists(
        st.integers(0, len(headers)), min_size=rows + 4, max_size=rows + 4
    ).map(sorted)
    nulls = st.lists(st.booleans(), min_size=rows + 3, max_size=rows + 3)
    mask = pa.array(draw(nulls)) if draw(st.booleans()) else None
    bounds = pa.array(draw(ends), pa.int32())
    lists = pa.ListArray.from_arrays(bounds, headers, type=HEADERS, mask=mask)
    return lists.slice(draw(st.integers(0, 3)), rows)


@st.composite
def arrow_records(draw: st.DrawFn) -> pa.RecordBatch:
    """Draw records as no decoder makes them, some of which no batch can hold."""
    gaps = draw(st.lists(st.integers(0, 9) | st.integers(1, 1 << 28), max_size=12))
    offsets = np.cumsum([draw(st.integers(0, 1 << 60)), *(gap + 1 for gap in gaps)])
    if draw(st.integers(0, 9)) == 0:
        offsets = offsets[:0]
    rows = len(offsets)
    columns = {
        "offset": pa.array(offsets, pa.int64()),
        "timestamp": pa.array(
            draw(st.lists(_STAMPS, min_size=rows, max_size=rows)),
            draw(st.sampled_from([pa.int64(), pa.timestamp("ms", "UTC")])),
        ),
    }
    for name, arrays in (
        ("key", payload_arrays),
        ("value", payload_arrays),
        ("headers", header_arrays),
    ):
        if draw(st.booleans()):
            columns[name] = draw(arrays(rows))
    records = pa.RecordBatch.from_pydict(columns)
    return records.slice(draw(st.integers(0, rows)))


@_compiled
@given(
    arrow_records(),
    st.builds(
        BatchOptions,
        codec=st.sampled_from(Codec),
        is_control=st.booleans(),
        delete_horizon_ms=st.none() | _INT64S,
    ),
)
def test_both_give_the_same_bytes_and_errors(
    records: pa.RecordBatch, options: BatchOptions
) -> None:
    written = _outcome(Kernel.COMPILED, records, options)
    assert written == _outcome(Kernel.PYTHON, records, options)


@pytest.mark.usefixtures("each_kernel")
@given(arrow_records())
def test_whatever_arrow_holds_is_read_back(records: pa.RecordBatch) -> None:
    try:
        written = _encode(records)
    except InvalidArgumentError:
        return
    names = tuple(name for name in records.schema.names if name != "timestamp")
    expected = records.select(names).to_pylist()
    for row in expected:
        if "headers" in row:
            row["headers"] = row["headers"] or None
    assert decode(written, names).to_pylist() == expected


@given(st.lists(_STAMPS).map(lambda values: np.array(values, np.int64)))
def test_varints_are_those_of_one_at_a_time(values: Int64Array) -> None:
    expected = [encode_varint(value) for value in values.tolist()]
    octets, sizes = encode_varints(values)
    assert octets.tobytes() == b"".join(expected)
    assert sizes.tolist() == varint_sizes(values).tolist() == list(map(len, expected))


_Ends = npt.NDArray[np.int32]


def _raw(kind: pa.DataType, ends: _Ends) -> pa.Array:
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"abcd")]
    return pa.Array.from_buffers(kind, len(ends) - 1, buffers)


def _raw_headers(ends: _Ends, key_ends: _Ends) -> pa.Array:
    values = pa.nulls(len(key_ends) - 1, pa.binary())
    fields = [HEADERS.value_type.field(index) for index in range(2)]
    held = pa.StructArray.from_arrays(
        [_raw(pa.string(), key_ends), values], fields=fields
    )
    buffers = [None, pa.py_buffer(ends)]
    return pa.Array.from_buffers(HEADERS, len(ends) - 1, buffers, children=[held])


def _check_bad_ends(
    name: str, column: pa.Array, ends: _Ends, bad_ends: list[int]
) -> None:
    """Make offsets invalid after Arrow has checked them, as it does on creation."""
    numbers = pa.array(range(len(column)), pa.int64())
    columns = {"offset": numbers, "timestamp": numbers, name: column}
    records = pa.RecordBatch.from_pydict(columns)
    assert encode_batch(records)
    ends[:] = bad_ends
    with pytest.raises(InvalidArgumentError, match=r"ends fall|[Oo]ffset"):
        encode_batch(records)


_BAD_ENDS = [[0, 3, 1, 4], [0, 9, 9, 4], [0, 1, -5, 4], [-2, 1, 2, 4], [0, 1, 2, 5]]


@pytest.mark.usefixtures("each_kernel")
@pytest.mark.parametrize("bad_ends", _BAD_ENDS)
@pytest.mark.parametrize("name", ["key", "value"])
def test_payloads_with_invalid_offsets_are_refused(
    name: str, bad_ends: list[int]
) -> None:
    ends = np.arange(4, dtype=np.int32)
    _check_bad_ends(name, _raw(pa.binary(), ends), ends, bad_ends)


@pytest.mark.usefixtures("each_kernel")
@pytest.mark.parametrize("bad_ends", _BAD_ENDS)
def test_headers_with_invalid_offsets_are_refused(bad_ends: list[int]) -> None:
    for index in range(2):
        ends = np.arange(4, dtype=np.int32), np.arange(4, dtype=np.int32)
        _check_bad_ends("headers", _raw_headers(*ends), ends[index], bad_ends)


_PAIR = (np.arange(2, dtype=np.int64), 0)
_ONE = (_PAIR[0], 1)  # the second of the two
_ENDS = np.arange(3, dtype=np.int32)


@_compiled
@pytest.mark.parametrize(
    "arguments",
    [
        (_ONE, _PAIR, 2, 0, 0, None, None, None),
        (_PAIR, _ONE, 2, 0, 0, None, None, None),
        (_PAIR, _PAIR, -1, 0, 0, None, None, None),
        (_PAIR, _PAIR, 2, 0, 0, (None, _ENDS[:2], 0, b"ab"), None, None),
        (_PAIR, _PAIR, 2, 0, 0, None, (None, _ENDS[:2], 0, b"ab"), None),
        (_PAIR, _PAIR, 2, 0, 0, None, (b"\3", _ENDS, 7, b"ab"), None),
        (_PAIR, _PAIR, 2, 0, 0, None, (b"\3", _ENDS, -1, b"ab"), None),
        (_PAIR, _PAIR, 2, 0, 0, None, (b"\3", _ENDS, (1 << 63) - 1, b"ab"), None),
        (_PAIR, _PAIR, 2, 0, 0, None, (None, _ENDS, 0, b"a"), None),
        (_PAIR, _PAIR, 2, 0, 0, None, None, (None, _ENDS[:2], 0, 0, None, None)),
        (_PAIR, _PAIR, 2, 0, 0, None, None, (b"", _ENDS, 0, 2, None, None)),
        (_PAIR, _PAIR, 2, 0, 0, None, None, (None, _ENDS, 0, -1, None, None)),
        (
            _PAIR,
            _PAIR,
            2,
            0,
            0,
            None,
            None,
            (None, _ENDS, 0, (1 << 63) - 1, None, None),
        ),
        (_PAIR, _PAIR, 2, 0, 0, None, None, (None, _ENDS, 0, 1, None, None)),
        (
            *(_PAIR, _PAIR, 2, 0, 0, None, None),
            (None, _ENDS, 0, 2, (None, _ENDS[:2], 0, b"ab"), None),
        ),
        (
            *(_PAIR, _PAIR, 2, 0, 0, None, None),
            (None, _ENDS, 0, 2, None, (None, _ENDS, 0, b"a")),
        ),
    ],
)
def test_the_kernel_refuses_buffers_that_are_too_small(
    arguments: tuple[Any, ...],
) -> None:
    from tieredfs.format.kernel._kernel import RecordBody  # noqa: PLC0415 - may not be there

    with pytest.raises(ValueError, match=r"too small|out of range|out of bounds"):
        RecordBody(*arguments)


@_compiled
@pytest.mark.parametrize("ends", [[0, 2, 4], [0, 1, 1], [0, 3, 2], [1, 2, 9]])
def test_the_kernel_writes_no_records_that_changed_since(ends: list[int]) -> None:
    from tieredfs.format.kernel._kernel import RecordBody  # noqa: PLC0415 - may not be there

    held, data = _ENDS.copy(), b"abcd"
    headers = (None, _ENDS, 0, 2, (None, held, 0, data), (None, _ENDS, 0, data))
    for body in (
        RecordBody(_PAIR, _PAIR, 2, 0, 0, (None, held, 0, data), None, None),
        RecordBody(_PAIR, _PAIR, 2, 0, 0, None, (None, held, 0, data), None),
        RecordBody(_PAIR, _PAIR, 2, 0, 0, None, None, headers),
    ):
        before = body.encode_records()
        held[:] = ends
        with pytest.raises(ValueError, match="changed"):
            body.encode_records()
        held[:] = _ENDS
        assert body.encode_records() == before


@_compiled
@pytest.mark.parametrize("size", [1, 60, 62])
def test_the_kernel_writes_behind_a_whole_header_only(size: int) -> None:
    from tieredfs.format.kernel._kernel import RecordBody  # noqa: PLC0415 - may not be there

    with pytest.raises(ValueError, match="header"):
        RecordBody(_PAIR, _PAIR, 2, 0, 0, None, None, None).encode_batch(bytes(size))
