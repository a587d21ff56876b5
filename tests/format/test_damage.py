"""Real bytes, damaged: a typed error or the same answer, never anything else."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from support.golden import decode, headers_of, log_batches, rows_of
from support.kafka_data import KAFKA
from tieredfs.errors import (
    CorruptBatchError,
    CorruptIndexError,
    TieredFSError,
    UnsupportedFormatError,
)
from tieredfs.format.index.leader_epochs import parse_leader_epochs
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.padding import without_padding
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.format.index.time import TimeIndex
from tieredfs.format.index.txn import TransactionIndex

pytestmark = pytest.mark.usefixtures("each_kernel")

_CRC_AT = 17  # from here on a checksum covers a batch, itself included


def _segment(pattern: str) -> Path:
    (found,) = KAFKA.glob(f"*/kafka-tiered-storage/{pattern}")
    return found


# Every codec in 4 KB; transactions, their markers and aborts.
_LOGS = [
    _segment("codecs-java-0-*/*927-*.log").read_bytes(),
    _segment("txn-0-*/*469-*.log").read_bytes(),
]
_HEADERS = [list(headers_of(log)) for log in _LOGS]
_ROWS = [[rows_of(decode([batch])) for batch in log_batches(log)] for log in _LOGS]


def _read(log: bytes) -> tuple[list[list[dict[str, Any]]], TieredFSError | None]:
    """Read a log batch by batch: what came out, and the error that ended it."""
    rows: list[list[dict[str, Any]]] = []
    try:
        rows.extend(rows_of(decode([batch])) for batch in log_batches(log))
    except TieredFSError as error:
        return rows, error
    return rows, None


def _payloads(rows: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    """Leave out the offsets, which no checksum covers."""
    return [(row["key"], row["value"], row["timestamp"]) for row in rows]


@given(st.sampled_from(range(len(_LOGS))), st.data(), st.integers(1, 255))
def test_a_flip_that_a_checksum_covers_ends_the_log_before_its_batch(
    number: int, data: st.DataObject, flip: int
) -> None:
    headers = _HEADERS[number]
    header = data.draw(st.sampled_from(headers))
    at = data.draw(st.integers(header.position + _CRC_AT, header.end - 1))
    log = bytearray(_LOGS[number])
    log[at] ^= flip
    rows, error = _read(bytes(log))
    assert isinstance(error, CorruptBatchError)
    assert f"batch at position {header.position}:" in str(error)
    assert rows == _ROWS[number][: headers.index(header)]


@given(st.sampled_from(range(len(_LOGS))), st.data(), st.integers(1, 255))
def test_a_flip_that_no_checksum_covers_is_found_or_stays_in_its_batch(
    number: int, data: st.DataObject, flip: int
) -> None:
    headers = _HEADERS[number]
    which = data.draw(st.integers(0, len(headers) - 1))
    log = bytearray(_LOGS[number])
    log[headers[which].position + data.draw(st.integers(0, _CRC_AT - 1))] ^= flip
    rows, error = _read(bytes(log))
    expected = _ROWS[number]
    assert rows[:which] == expected[:which]
    if error is None and len(rows) == len(expected):
        assert rows[which + 1 :] == expected[which + 1 :]


@given(st.sampled_from(range(len(_LOGS))), st.data())
def test_a_truncated_log_gives_its_whole_batches(
    number: int, data: st.DataObject
) -> None:
    log = _LOGS[number]
    cut = data.draw(st.integers(0, len(log)))
    rows, error = _read(log[:cut])
    whole = sum(header.end <= cut for header in _HEADERS[number])
    assert error is None
    assert rows == _ROWS[number][:whole]


@given(st.sampled_from(range(len(_LOGS))), st.data())
def test_a_log_with_a_hole_gives_a_typed_error_or_true_batches(
    number: int, data: st.DataObject
) -> None:
    log = _LOGS[number]
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(log))] * 2)))
    rows, _ = _read(log[:start] + log[end:])
    true = [_payloads(batch) for batch in _ROWS[number]]
    assert all(_payloads(batch) in true for batch in rows)


def _offsets(data: bytes) -> object:
    index = OffsetIndex.parse(data, 200, end_offset=399, log_size=61070, name="x")
    return [index.entry(number) for number in range(len(index))]


def _times(data: bytes) -> object:
    index = TimeIndex.parse(data, 200, end_offset=399, name="x")
    return [index.entry(number) for number in range(len(index))]


def _aborts(data: bytes) -> object:
    return TransactionIndex.parse(data, 551, name="x").entries


def _producers(data: bytes) -> object:
    return ProducerSnapshot.parse(data, name="x").producers


def _epochs(data: bytes) -> object:
    return parse_leader_epochs(data, name="x").entries


@dataclass(frozen=True, slots=True)
class _Index:
    """An index as a broker wrote it, and its parser."""

    data: bytes
    parse: Callable[[bytes], object]


_INDEXES = {
    "offset": _Index(_segment("epochs-0-*/*200-*.index").read_bytes(), _offsets),
    "time": _Index(_segment("epochs-0-*/*200-*.timeindex").read_bytes(), _times),
    "transaction": _Index(_segment("txn-0-*/*551-*.txnindex").read_bytes(), _aborts),
    "snapshot": _Index(_segment("txn-0-*/*551-*.snapshot").read_bytes(), _producers),
    "epochs": _Index(
        _segment("epochs-0-*/*500-*.leader_epoch_checkpoint").read_bytes(), _epochs
    ),
}

_every_index = pytest.mark.parametrize("name", sorted(_INDEXES))


def _parsed(index: _Index, data: bytes) -> object:
    """Parse; None when it is refused as it should be."""
    try:
        return index.parse(data)
    except (CorruptIndexError, UnsupportedFormatError) as error:
        if not str(error).startswith("x: "):
            raise
        return None


@_every_index
def test_an_index_as_it_was_written_is_read(name: str) -> None:
    assert _parsed(_INDEXES[name], _INDEXES[name].data)


@_every_index
@given(data=st.data(), flip=st.integers(1, 255))
def test_a_flipped_byte_of_an_index_is_refused_or_gives_a_valid_index(
    name: str, data: st.DataObject, flip: int
) -> None:
    index = _INDEXES[name]
    damaged = bytearray(index.data)
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= flip
    found = _parsed(index, bytes(damaged))
    if name == "snapshot":
        assert found is None  # a checksum covers it


@_every_index
def test_every_truncation_of_an_index_is_refused_or_gives_its_beginning(
    name: str,
) -> None:
    index = _INDEXES[name]
    whole: Any = index.parse(index.data)
    for cut in range(len(index.data)):
        found: Any = _parsed(index, index.data[:cut])
        if name == "epochs" and cut:  # the last digits of the last offset may be gone
            beginning = found is None or found[:-1] == whole[:-1]
        else:
            beginning = found is None or found == whole[: len(found)]
        assert beginning, cut


@_every_index
@given(junk=st.binary(max_size=120))
def test_arbitrary_bytes_are_refused_or_give_a_valid_index(
    name: str, junk: bytes
) -> None:
    _parsed(_INDEXES[name], junk)


@_every_index
@given(data=st.data(), junk=st.binary(min_size=1, max_size=60))
def test_bytes_put_into_an_index_are_refused_or_give_a_valid_index(
    name: str, data: st.DataObject, junk: bytes
) -> None:
    index = _INDEXES[name]
    at = data.draw(st.integers(0, len(index.data)))
    _parsed(index, index.data[:at] + junk + index.data[at:])


@pytest.mark.parametrize("name", ["offset", "time", "transaction"])
@pytest.mark.parametrize("zeros", [1, 2, 1000])
def test_an_index_with_zeros_at_its_end_is_refused(name: str, zeros: int) -> None:
    index = _INDEXES[name]
    size = {"offset": 8, "time": 12, "transaction": 34}[name]
    assert _parsed(index, index.data + bytes(size * zeros)) is None
    whole = bytes(without_padding(index.data + bytes(size * zeros), size))
    assert whole == index.data
