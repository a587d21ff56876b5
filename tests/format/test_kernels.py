"""The kernels: they differ only in speed; and which one is in use."""

import importlib.util
import re
from typing import TYPE_CHECKING

import google_crc32c
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from support.golden import rows_of
from support.wire import WireRecord, encode_batch
from support.wire_logs import logs, wire_records
from tieredfs.errors import CorruptBatchError, InvalidArgumentError
from tieredfs.format.batch.header import HEADER_SIZE
from tieredfs.format.batch.reader import scan_log
from tieredfs.format.batch.table import BATCH_ROW
from tieredfs.format.checksum import crc32c
from tieredfs.format.kernel.select import KERNEL_SETTING, Kernel, chosen_kernel
from tieredfs.format.records.decode import RecordDecoder

if TYPE_CHECKING:
    from tieredfs.format.kernel._kernel import JsonColumn

_IS_COMPILED = importlib.util.find_spec("tieredfs.format.kernel._kernel") is not None
_compiled = pytest.mark.skipif(
    not _IS_COMPILED, reason="the kernel is not compiled: install a C compiler"
)
_EDITS = st.tuples(st.integers(0, 1 << 16), st.integers(0, 2), st.integers(0, 255))


def _outcome(kernel: Kernel, log: bytes) -> tuple[list[dict[str, object]], str]:
    """Decode by a kernel: the rows that come out, and the batch an error names."""
    rows: list[dict[str, object]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KERNEL_SETTING, kernel)
        chosen_kernel.cache_clear()
        try:
            for batch in RecordDecoder("t", 0).decode(scan_log(log)):
                batch.validate(full=True)
                rows += rows_of(batch)
        except CorruptBatchError as error:
            return rows, re.sub(r"(position \d+): .*", r"\1", str(error))
        finally:
            chosen_kernel.cache_clear()
    return rows, ""


@st.composite
def damaged_logs(draw: st.DrawFn) -> bytes:
    """Draw a log whose checksums are right, and its records often wrong."""
    log, offset = b"", 0
    for _ in range(draw(st.integers(1, 3))):
        records = draw(wire_records(offset))
        payload = bytearray(encode_batch(records, base_offset=offset)[HEADER_SIZE:])
        for place, kind, byte in draw(st.lists(_EDITS, max_size=3)):
            at = place % (len(payload) + 1)
            payload[at : at + min(kind, 1)] = bytes([byte]) if kind < 2 else b""
        last = (records[-1].offset if records else offset) + draw(st.integers(0, 2))
        log += encode_batch(
            records, base_offset=offset, last_offset=last, payload=bytes(payload)
        )
        offset = last + 1
    return log


@_compiled
@given(logs())
def test_both_give_the_same_rows(log_and_rows: tuple[bytes, object]) -> None:
    log, _ = log_and_rows
    assert _outcome(Kernel.COMPILED, log) == _outcome(Kernel.PYTHON, log)


@_compiled
@given(damaged_logs())
def test_both_stop_at_the_same_record_batch(log: bytes) -> None:
    assert _outcome(Kernel.COMPILED, log) == _outcome(Kernel.PYTHON, log)


@_compiled
@given(
    st.integers(30, 70),
    st.sampled_from([1, 1 << 14, 1 << 30]),
    st.lists(_EDITS, max_size=2),
)
def test_both_agree_on_batches_of_many_records(
    count: int, step: int, edits: list[tuple[int, int, int]]
) -> None:
    records = [
        WireRecord(
            at,
            at * step,
            b"k" * (at % 19) if at % 7 else None,
            b"v" * (at % 150) if at % 11 else None,
            ((b"a" * (at % 18), b"b"), (b"c", None if at == 1 else b""))[: at % 3],
        )
        for at in range(count)
    ]
    payload = bytearray(encode_batch(records)[HEADER_SIZE:])
    for place, _, byte in edits:
        payload[place % len(payload)] = byte
    log = encode_batch(records, payload=bytes(payload))
    assert _outcome(Kernel.COMPILED, log) == _outcome(Kernel.PYTHON, log)


@_compiled
@given(st.binary(max_size=3000), st.integers(0, 9), st.integers(0, 40))
def test_every_way_to_a_checksum_gives_the_same(
    some: bytes, start: int, times: int
) -> None:
    from tieredfs.format.kernel import _kernel  # noqa: PLC0415 - it may not be there

    data = memoryview(some * times)[start:]  # long enough for each of the streams
    expected = google_crc32c.value(bytes(data))
    assert _kernel.crc32c(data) == _kernel.crc32c_table(data) == expected
    half = len(data) // 2
    assert _kernel.crc32c(data[half:], _kernel.crc32c(data[:half])) == expected


@_compiled
def test_the_kernel_refuses_buffers_that_are_too_small() -> None:
    from tieredfs.format.kernel import _kernel  # noqa: PLC0415 - it may not be there

    table = np.zeros(1, BATCH_ROW)
    limits, state = np.ones(6, np.int64), np.zeros(_kernel.STATE_SIZE, np.int64)
    odd = np.frombuffer(bytes(57), np.int64, offset=1)
    with pytest.raises(ValueError, match="too small"):
        _kernel.fill(b"", table, limits[:5], state, [], is_checked=True)
    with pytest.raises(ValueError, match="too small"):
        _kernel.fill(b"", table, limits, state[1:], [], is_checked=True)
    with pytest.raises(ValueError, match="not aligned"):
        _kernel.fill(b"", table, odd, state, [], is_checked=True)


@pytest.mark.usefixtures("each_kernel")
@pytest.mark.parametrize("wrong", [0, 2, 4, None])
def test_batches_are_valid_up_to_the_first_wrong_checksum(wrong: int | None) -> None:
    log = bytearray()
    for offset in range(5):
        found = bytearray(encode_batch([WireRecord(offset, 1, b"k", b"v" * 99)]))
        found[-1] ^= offset == wrong
        log += found
    (batches,) = scan_log(log)
    assert batches.count_valid() == (5 if wrong is None else wrong)


@_compiled
@given(st.integers(-2, 200), st.integers(-2, 200))
def test_no_checksum_reaches_out_of_its_buffer(size: int, end: int) -> None:
    from tieredfs.format.kernel import _kernel  # noqa: PLC0415 - it may not be there

    log = encode_batch([WireRecord(0, 1, b"k", b"v" * 20)])
    (batches,) = scan_log(log)
    table = batches.table.copy()
    table["size"], table["end"] = size, end
    is_whole = (size, end) == (len(log), len(log))
    assert _kernel.count_valid(log, table) == is_whole


@_compiled
@given(
    st.binary(max_size=20),
    st.lists(st.integers(-3, 24), min_size=2, max_size=4),
    st.integers(0, 3),
    st.integers(0, 40),
)
def test_no_line_is_read_or_written_out_of_its_buffers(
    data: bytes, offsets: list[int], first: int, room: int
) -> None:
    from tieredfs.format.kernel import _kernel  # noqa: PLC0415 - it may not be there

    known = bytearray(b"\1" * _kernel.JSON_KNOWN_SIZE)
    places = np.array(offsets, np.int32)
    target = bytearray(room + 8)

    def write(rows: int, kind: int, column: "JsonColumn") -> None:
        try:
            lines = _kernel.JsonLines(rows, known, [(kind, b"", column)])
            _, size, _, _ = lines.write(0, memoryview(target)[:room])
        except ValueError:
            return
        assert size <= room

    rows = len(offsets) - 1
    texts = (None, places, data, first, max(rows - first, 0))
    write(rows, _kernel.JSON_TEXT, texts)
    write(rows, _kernel.JSON_HEADERS, (places, texts, texts))
    write(rows + first, _kernel.JSON_INT32, places)
    write(rows, _kernel.JSON_TEXT, (data[:0], places, data, 0, rows))
    assert target[room:] == bytes(8)


@pytest.mark.usefixtures("each_kernel")
def test_a_checksum_is_that_of_the_rfc() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720, B.4
    assert crc32c(memoryview(bytes(32))) == 0x8A9136AA


def test_the_setting_forces_a_kernel(each_kernel: Kernel) -> None:
    assert chosen_kernel() is each_kernel


@pytest.mark.parametrize("setting", ["", "auto"])
def test_the_compiled_kernel_is_used_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv(KERNEL_SETTING, setting)
    chosen = chosen_kernel.__wrapped__()
    assert chosen is (Kernel.COMPILED if _IS_COMPILED else Kernel.PYTHON)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("numpy", "TIEREDFS_KERNEL=numpy: must be auto, compiled or python"),
        ("compiled", "TIEREDFS_KERNEL=compiled: .* without a compiler"),
    ],
)
def test_a_kernel_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch, setting: str, message: str
) -> None:
    monkeypatch.setenv(KERNEL_SETTING, setting)
    monkeypatch.setattr("tieredfs.format.kernel.select.find_spec", lambda _name: None)
    with pytest.raises(InvalidArgumentError, match=message):
        chosen_kernel.__wrapped__()


def test_python_decodes_where_nothing_was_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(KERNEL_SETTING, raising=False)
    monkeypatch.setattr("tieredfs.format.kernel.select.find_spec", lambda _name: None)
    assert chosen_kernel.__wrapped__() is Kernel.PYTHON
