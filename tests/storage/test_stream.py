"""A log in requests of any size has the same batches."""

import pytest

from support.wire import WireRecord, encode_batch, encode_message, encode_wrapper
from tieredfs import CorruptBatchError, CorruptObjectError
from tieredfs.storage.segment_log.stream import (
    LogFetch,
    read_torn_batches,
    split_log,
)

_BATCHES = [
    encode_batch([WireRecord(first, 0, b"k", b"v"), WireRecord(first + 9, 0)])
    for first in range(0, 50, 10)
]
_LOG = b"".join(_BATCHES)
_SIZE = len(_BATCHES[0])
_FETCH = 16 << 20


def _bases(log: bytes, fetch_size: int) -> list[int]:
    view = memoryview(log)
    pieces = LogFetch(
        lambda start, end: view[start:end], len(log), fetch_size=fetch_size
    )
    found = split_log(pieces, name="log", torn_tail=True)
    return [base for batches in found for base in batches["base_offset"].tolist()]


# The first ends a request with a batch; the next, in the zeros that an offset begins
# with; the last two, inside the field of the size.
@pytest.mark.parametrize("size", [_SIZE, _SIZE + 3, 2 * _SIZE + 7, 5, 11])
@pytest.mark.parametrize("tail", [b"", bytes(5), bytes(40), _BATCHES[0][:30]])
def test_an_active_log_does_not_end_where_a_request_ends(
    size: int, tail: bytes
) -> None:
    assert _bases(_LOG + tail, size) == [0, 10, 20, 30, 40]


@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_plugin_that_returns_too_little_is_an_error_and_no_endless_loop(
    count: int,
) -> None:
    view, asked = memoryview(_LOG), 0

    def fetch(start: int, end: int) -> memoryview:
        nonlocal asked
        asked += 1
        return view[start : min(end, start + count)] if asked < 5 else view[:0]

    pieces = LogFetch(fetch, len(_LOG), fetch_size=_SIZE)
    with pytest.raises(CorruptObjectError, match="the log ends at byte"):
        list(split_log(pieces, name="log"))
    assert asked < 20


_RECORD = WireRecord(1 << 20, 1_700_000_000_000, b"key", b"value" * 60)
_FORMATS = {
    "magic 0": encode_message(_RECORD, 0),
    "magic 1": encode_message(_RECORD, 1),
    "a wrapper": encode_wrapper([_RECORD], 1, "gzip"),
    "magic 2": encode_batch([_RECORD], leader_epoch=7),
    "compressed": encode_batch([_RECORD], leader_epoch=7, codec="zstd"),
}
every_format = pytest.mark.parametrize("last", _FORMATS.values(), ids=_FORMATS)


def _active_bases(log: bytes) -> list[int]:
    view = memoryview(log)
    found = read_torn_batches(
        lambda start, end: view[start:end], len(log), fetch_size=_FETCH, name="log"
    )
    return [batch.header.base_offset for batch in found]


@every_format
def test_the_first_part_of_a_batch_before_zeros_is_left_out(last: bytes) -> None:
    """Wherever it ends, as in a file that the broker has preallocated."""
    for size in range(len(last)):
        if any(last[size:]):
            torn = _LOG + last[:size] + bytes(2000)
            assert _active_bases(torn) == [0, 10, 20, 30, 40]
    assert _active_bases(_LOG + last + bytes(2000)) == [0, 10, 20, 30, 40, 1 << 20]


@every_format
@pytest.mark.parametrize("size", [8, 11, 15, 20, 70])
def test_what_is_behind_the_zeros_shows_that_a_batch_was_not_the_last_one(
    last: bytes, size: int
) -> None:
    torn = _LOG + last[:size] + bytes(len(last) - size)
    for behind in (b"\1", bytes(20) + last):
        with pytest.raises(CorruptBatchError, match=f"position {len(_LOG)}"):
            _active_bases(torn + behind)


@pytest.mark.parametrize("zeros", [_FETCH, 2 * _FETCH - 300])
def test_it_is_seen_behind_zeros_of_any_number(zeros: int) -> None:
    torn = _LOG + _FORMATS["magic 2"][:100] + bytes(zeros)
    with pytest.raises(CorruptBatchError, match=f"position {len(_LOG)}"):
        _active_bases(torn + b"\1")


@pytest.mark.parametrize("zeros", [0, 2000])
def test_a_whole_batch_with_a_wrong_byte_is_no_first_part(zeros: int) -> None:
    """One that ends in something else than a zero; or in a file without zeros."""
    records = [WireRecord(50, 0, b"k", b"v" * 90, ((b"h", b"end"),))]
    for at in (30, 100):
        last = bytearray(encode_batch(records if zeros else [_RECORD]))
        last[at] ^= 1
        with pytest.raises(CorruptBatchError, match="CRC-32C does not match"):
            _active_bases(_LOG + last + bytes(zeros))


_NEXT = encode_batch([WireRecord(50, 0, b"k", b"v")])


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (_NEXT[:16] + b"\3" + _NEXT[17:], "unknown magic 3"),
        (_NEXT[:8] + b"\x80", "a length of -2147483648 is too small"),
        (_NEXT[:8] + b"\0\0\0\x28" + _NEXT[12:30], "52 bytes are too few"),
        (b"\0" * 7 + b"\5" + _NEXT[8:], "base offset 5 follows offset 49"),
    ],
)
def test_what_no_broker_leaves_of_a_batch_is_corrupt_before_zeros(
    last: bytes, message: str
) -> None:
    with pytest.raises(CorruptBatchError, match=message):
        _active_bases(_LOG + last + bytes(2000))


class _Growing:
    """A preallocated file, which a broker writes between two requests."""

    def __init__(self, *states: bytes) -> None:
        self._states = list(states)
        self.requests: list[int] = []

    def __call__(self, start: int, end: int) -> memoryview:
        state = self._states[0]
        if self._states[1:]:
            del self._states[0]
        self.requests.append(end - start)
        return memoryview(state.ljust(end, b"\0"))[start:end]


def test_a_batch_that_becomes_whole_while_the_log_is_read_is_read() -> None:
    growing = _Growing(_LOG[:-9], _LOG + _FORMATS["magic 2"])
    found = read_torn_batches(growing, 4000, fetch_size=_FETCH, name="log")
    assert [b.header.base_offset for b in found] == [0, 10, 20, 30, 40, 1 << 20]


def test_zeros_of_any_number_are_read_in_requests_of_bounded_size() -> None:
    growing = _Growing(_LOG + _FORMATS["magic 2"][:100])
    size = 3 * _FETCH + 5
    found = read_torn_batches(growing, size, fetch_size=_FETCH, name="log")
    assert [b.header.base_offset for b in found] == [0, 10, 20, 30, 40]
    assert max(growing.requests) == _FETCH
