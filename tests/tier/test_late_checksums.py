"""Checksums are looked at while decoding; what is left out is looked at before."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from support.wire import WireRecord, encode_batch
from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import CorruptBatchError
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.read.pipeline import read_slice
from tieredfs.model import (
    UNKNOWN_TOPIC_ID,
    SegmentId,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.storage.segment_log.stream import LogFetch, split_log

if TYPE_CHECKING:
    from tieredfs.storage import RemoteStorageManager

_BATCHES = [
    encode_batch([WireRecord(first, 0, b"k", b"v"), WireRecord(first + 9, 0)])
    for first in range(0, 50, 10)
]
_LOG = b"".join(_BATCHES)
_SIZE = len(_BATCHES[0])
_ATTRIBUTES_END, _DELTA_END = 23, 27


class _Store:
    """A store of one segment, whose indexes nobody asks for."""

    def __init__(self, log: bytes, fetch_bytes: int) -> None:
        self._log = memoryview(log)
        # Smaller than an option may be.
        options = SimpleNamespace(fetch_bytes=fetch_bytes)
        self.store = SimpleNamespace(options=options)

    def fetch_log_ahead(self, _: object, start: int, end: int) -> memoryview:
        return self._log[start:end]

    def name_of(self, _: object) -> str:
        return "log"

    def is_current(self, *_: object) -> bool:
        return True


def _offsets(log: bytes, start: int, end: int, fetch_bytes: int = 1 << 20) -> list[int]:
    """Read what a consumer sees of some offsets."""
    partition = TopicIdPartition("t", 0, UNKNOWN_TOPIC_ID)
    segment = SegmentMetadata(partition, SegmentId("A" * 22), 0, 49, size=len(log))
    part = SegmentSlice(segment, start, end, 0, len(log), LeaderEpochs())
    storage = cast("RemoteStorageManager", _Store(log, fetch_bytes))
    decoder = RecordDecoder("t", 0, ("offset",))
    batches = read_slice(storage, part)
    plain = (kept for found in batches for kept in found.without(found.is_control))
    found = decoder.decode(plain)
    return [offset for piece in found for offset in piece["offset"].to_pylist()]


def _flipped(row: int, at: int, bits: int) -> bytes:
    log = bytearray(_LOG)
    log[row * _SIZE + at] ^= bits
    return bytes(log)


@pytest.mark.parametrize("row", range(5))
def test_a_bit_that_turns_records_into_the_brokers_own_hides_none(row: int) -> None:
    assert _offsets(_LOG, 0, 50) == [0, 9, 10, 19, 20, 29, 30, 39, 40, 49]
    log = _flipped(row, _ATTRIBUTES_END - 1, 0x20)
    with pytest.raises(CorruptBatchError, match=f"position {row * _SIZE}: CRC-32C"):
        _offsets(log, 0, 50)


@pytest.mark.parametrize("row", [1, 2])
def test_bits_that_make_a_batch_end_below_the_start_skip_nothing(row: int) -> None:
    assert _offsets(_LOG, 28, 50)[0] == 29
    log = _flipped(row, _DELTA_END - 1, 9 ^ 1)  # as if its offsets ended at the second
    with pytest.raises(CorruptBatchError, match=f"position {row * _SIZE}: CRC-32C"):
        _offsets(log, 28, 50)


def test_a_flipped_offset_is_no_batch_of_another_segment() -> None:
    with pytest.raises(CorruptBatchError, match=f"position {4 * _SIZE}: CRC-32C"):
        _offsets(_flipped(4, _DELTA_END - 1, 0x40), 0, 50)


@pytest.mark.parametrize("size", [1, 11, 61, _SIZE - 1, _SIZE + 5, 2 * _SIZE + 30])
def test_a_log_is_the_same_in_requests_of_any_size(size: int) -> None:
    assert _offsets(_LOG, 0, 50, size) == [0, 9, 10, 19, 20, 29, 30, 39, 40, 49]
    log = _flipped(3, _SIZE - 1, 1)
    with pytest.raises(CorruptBatchError, match=f"position {3 * _SIZE}: CRC-32C"):
        _offsets(log, 0, 50, size)


def test_only_a_batch_that_a_request_cut_off_is_copied() -> None:
    log = memoryview(_LOG)
    pieces = LogFetch(
        lambda start, end: log[start:end], len(log), fetch_size=2 * _SIZE + 30
    )
    runs = split_log(pieces, name="log")
    copied = [len(run.buffer) for run in runs if run.buffer.obj is not _LOG]
    assert copied == [_SIZE, _SIZE]
