"""Messages of version 0 and 1, and what wraps them, are batches like any other."""

import gzip
import re
import struct
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from support.golden import decode, headers_of, log_batches, rows_of
from support.kafka_data import KAFKA
from support.wire import (
    CODECS,
    LOG_APPEND_TIME,
    WireRecord,
    encode_batch,
    encode_message,
    encode_wrapper,
    seal_message,
)
from tieredfs.errors import CorruptBatchError, TieredFSError, UnsupportedFormatError
from tieredfs.format.batch.header import BatchHeader, TimestampType
from tieredfs.format.batch.legacy import upgraded_records
from tieredfs.format.compression.codec import Codec
from tieredfs.format.compression.lz4_frames import repair_lz4_header

pytestmark = pytest.mark.usefixtures("each_kernel")

_INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
_PAYLOADS = st.none() | st.binary(max_size=300)
_CODECS = sorted(set(CODECS) - {"none", "zstd"})
_MAGICS = pytest.mark.parametrize("magic", [0, 1])
_RECORDS = [WireRecord(10, 500, b"k", b"v"), WireRecord(13, 400, None, b"w")]
_FILES = sorted((KAFKA / "record-formats" / "logs").glob("v[01]-*/*.log"))


@st.composite
def _records(draw: st.DrawFn) -> list[WireRecord]:
    offset = draw(st.integers(0, 1 << 62))
    found = []
    for gap in draw(st.lists(st.integers(1, 1000), min_size=1, max_size=20)):
        record = WireRecord(offset, draw(_INT64), draw(_PAYLOADS), draw(_PAYLOADS))
        found.append(record)
        offset += gap
    return found


def _row(record: WireRecord, magic: int) -> dict[str, Any]:
    return {
        "key": record.key,
        "value": record.value,
        "topic": "t",
        "partition": 0,
        "offset": record.offset,
        "timestamp": record.timestamp if magic else -1,
        "timestampType": 0 if magic else -1,
        "headers": None,
    }


def _header(log: bytes) -> BatchHeader:
    (header,) = headers_of(log, name="x")
    return header


@_MAGICS
@given(records=_records())
def test_each_message_is_a_batch_of_one_record(
    magic: int, records: list[WireRecord]
) -> None:
    log = b"".join(encode_message(record, magic) for record in records)
    assert rows_of(decode(log)) == [_row(record, magic) for record in records]
    assert [h.record_count for h in headers_of(log)] == [1] * len(records)


@_MAGICS
@given(records=_records(), codec=st.sampled_from(_CODECS))
def test_a_wrapper_is_a_batch_of_the_messages_inside(
    magic: int, records: list[WireRecord], codec: str
) -> None:
    log = encode_wrapper(records, magic, codec)
    assert rows_of(decode(log)) == [_row(record, magic) for record in records]
    header = _header(log)
    assert header.base_offset == records[0].offset
    assert header.last_offset == records[-1].offset
    assert header.record_count == len(records)
    assert header.codec is Codec(CODECS[codec].number)


@_MAGICS
@given(records=_records())
def test_records_take_no_more_bytes_than_the_messages_did(
    magic: int, records: list[WireRecord]
) -> None:
    log = encode_wrapper(records, magic)
    inside = b"".join(encode_message(record, magic) for record in records)
    assert len(upgraded_records(log, _header(log), name="x")) <= len(inside)


def test_records_are_bytes_which_need_no_other_object() -> None:
    log = encode_wrapper(_RECORDS, 1)
    # A view of a BytesIO in a reference cycle crashes Python 3.12.1 when it is freed.
    assert isinstance(upgraded_records(log, _header(log), name="x").obj, bytes)


@given(st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=8), st.booleans())
def test_versions_follow_one_another_in_a_log(
    magics: list[int],
    whole: bool,
) -> None:
    log, rows = b"", []
    for number, magic in enumerate(magics):
        records = [replace(r, offset=r.offset + 10 * number) for r in _RECORDS]
        if magic == 2:
            log += encode_batch(records)
        elif whole:
            log += encode_wrapper(records, magic)
        else:
            log += b"".join(encode_message(record, magic) for record in records)
        rows += [_row(record, magic) for record in records]
    assert rows_of(decode(log)) == rows


def test_what_old_versions_do_not_have_is_minus_one_or_false() -> None:
    header = _header(encode_wrapper(_RECORDS, 0, attributes=0x78))
    assert header.leader_epoch == header.producer_id == header.producer_epoch == -1
    assert header.base_sequence == header.last_sequence == header.max_timestamp == -1
    assert not header.is_control
    assert not header.is_transactional
    assert header.delete_horizon_ms is None
    assert header.timestamp_type is TimestampType.NO_TIMESTAMP


def test_a_wrapper_that_the_broker_timed_times_all_inside() -> None:
    log = encode_wrapper(_RECORDS, 1, attributes=LOG_APPEND_TIME, timestamp=777)
    rows = rows_of(decode(log))
    assert [row["timestamp"] for row in rows] == [777, 777]
    assert [row["timestampType"] for row in rows] == [1, 1]


def test_the_largest_timestamp_is_the_wrappers_own() -> None:
    header = _header(encode_wrapper(_RECORDS, 1, timestamp=501))
    assert header.max_timestamp == 501


@_MAGICS
def test_a_window_of_offsets_cuts_a_wrapper(magic: int) -> None:
    (batch,) = log_batches(encode_wrapper(_RECORDS, magic))
    rows = rows_of(decode([batch.within(11, 14)]))
    assert [row["offset"] for row in rows] == [13]


def _inside(magic: int, *records: WireRecord) -> bytes:
    return b"".join(encode_message(record, magic) for record in records)


_ONE = WireRecord(0, 1, b"k", b"v")


def _resealed(message: bytes, position: int, data: bytes) -> bytes:
    changed = bytearray(message)
    changed[position : position + len(data)] = data
    return seal_message(changed)


def _malformed(magic: int) -> dict[str, bytes]:
    """Return wrappers and messages that no client wrote, their checksums right."""
    plain = encode_message(_ONE, magic)
    key_at = 26 if magic else 18
    nested = encode_wrapper([_ONE], magic)
    return {
        "inside a compressed message": encode_wrapper(
            [], magic, inside=nested, offset=0
        ),
        f"magic {1 - magic} inside": encode_wrapper(
            [], magic, inside=_inside(1 - magic, _ONE)
        ),
        "contains no messages": encode_wrapper([], magic, inside=b""),
        "no value": encode_message(WireRecord(0, 1), magic, 1),
        "do not increase": encode_wrapper([], magic, inside=2 * _inside(magic, _ONE)),
        "CRC-32": encode_wrapper([], magic, inside=plain[:-1] + b"?"),
        "cut off": encode_wrapper([], magic, inside=plain + plain[:-1]),
        "too few for a message": encode_wrapper([], magic, inside=plain + b"\0" * 13),
        "offset 7 inside a message of offset 6": encode_wrapper(
            [], magic, inside=_inside(magic, replace(_ONE, offset=7)), offset=6
        ),
        "offsets 0 to 2147483648": encode_wrapper(
            [],
            magic,
            inside=_inside(magic, _ONE, replace(_ONE, offset=1 << 31)),
            offset=1 << 31,
        ),
        "bytes follow the last field": seal_message(
            bytearray(
                plain[:8] + struct.pack(">i", len(plain) - 11) + plain[12:] + b"?"
            )
        ),
        "a length of -2": _resealed(plain, key_at, struct.pack(">i", -2)),
        "a length of 7": _resealed(plain, key_at, struct.pack(">i", 7)),
        "negative offset: -1": encode_message(replace(_ONE, offset=-1), magic),
        "invalid gzip data": encode_message(WireRecord(0, 1, None, b"?"), magic, 1),
    }


_MALFORMED = [
    pytest.param(log, detail, id=f"version {magic}: {detail}")
    for magic in (0, 1)
    for detail, log in _malformed(magic).items()
]


@pytest.mark.parametrize(("log", "detail"), _MALFORMED)
def test_what_no_client_wrote_is_corrupt_and_named(log: bytes, detail: str) -> None:
    named = rf"^x: batch at position 0: .*{re.escape(detail)}"
    with pytest.raises(CorruptBatchError, match=named):
        _header(log)


def test_an_absolute_offset_inside_that_is_below_the_wrappers_is_corrupt() -> None:
    log = encode_wrapper(_RECORDS, 0, offset=14)
    with pytest.raises(CorruptBatchError, match=r"offset 13 inside .* 14"):
        _header(log)


def test_a_wrapper_of_version_1_may_have_lost_its_first_messages_to_the_cleaner() -> (
    None
):
    inside = _inside(1, replace(_ONE, offset=3), replace(_ONE, offset=5))
    header = _header(encode_wrapper([], 1, inside=inside, offset=105))
    assert (header.base_offset, header.last_offset) == (103, 105)


@_MAGICS
@pytest.mark.parametrize("codec", [4, 5, 6, 7])
def test_a_codec_that_old_versions_do_not_have_is_unsupported(
    magic: int, codec: int
) -> None:
    log = encode_message(WireRecord(0, 1, None, b"?"), magic, codec)
    with pytest.raises(UnsupportedFormatError, match=f"^x: .* codec {codec} at pos"):
        _header(log)


@_MAGICS
@pytest.mark.parametrize("length", [3, 5, 13])
def test_a_message_too_short_for_its_fields_is_corrupt(magic: int, length: int) -> None:
    cut = encode_message(_ONE, magic)[: 12 + length]
    log = bytearray(cut[:8] + struct.pack(">i", length) + cut[12:])
    if length > 4:
        seal_message(log)
    with pytest.raises(CorruptBatchError, match="batch at position 0"):
        _header(bytes(log) + encode_message(_ONE, magic))


def test_a_bomb_is_refused_in_bounded_memory() -> None:
    bomb = gzip.compress(bytes(1 << 20)) * 300
    log = encode_message(WireRecord(0, 1, None, bomb), 1, 1)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatchError, match="more than 268435456 bytes"):
            _header(log)
        assert tracemalloc.get_traced_memory()[1] < 700 << 20
    finally:
        tracemalloc.stop()


def test_the_header_checksum_of_lz4_is_ignored_in_version_0_alone() -> None:
    def wrong(magic: int) -> bytes:
        log = encode_wrapper(_RECORDS, magic, "lz4")
        frame = log.index(bytes.fromhex("04224d18"))
        checksum = frame + (14 if log[frame + 4] & 0x08 else 6)
        return _resealed(log, checksum, bytes([log[checksum] ^ 0xFF]))

    assert decode(wrong(0))["value"].to_pylist() == [b"v", b"w"]
    with pytest.raises(CorruptBatchError, match="invalid lz4 data"):
        _header(wrong(1))


@given(st.binary(max_size=300))
def test_a_right_lz4_header_is_left_as_it_is(data: bytes) -> None:
    frame = CODECS["lz4"].compress(data)
    assert repair_lz4_header(frame) == frame


@given(st.binary(max_size=20), st.booleans())
def test_bytes_that_are_not_an_lz4_frame_keep_their_length(
    data: bytes,
    begins: bool,
) -> None:
    frame = bytes.fromhex("04224d18") * begins + data
    assert len(repair_lz4_header(frame)) == len(frame)


def _read(log: bytes) -> tuple[list[list[dict[str, Any]]], TieredFSError | None]:
    rows: list[list[dict[str, Any]]] = []
    try:
        rows.extend(rows_of(decode([batch])) for batch in log_batches(log))
    except TieredFSError as error:
        return rows, error
    return rows, None


@given(st.sampled_from(_FILES), st.data(), st.integers(1, 255))
def test_a_flip_is_found_or_moves_the_offsets_of_one_batch(
    path: Path, data: st.DataObject, flip: int
) -> None:
    log = bytearray(path.read_bytes())
    headers = list(headers_of(bytes(log)))
    true, _ = _read(bytes(log))
    which = data.draw(st.integers(0, len(headers) - 1))
    at = data.draw(st.integers(0, headers[which].size - 1))
    log[headers[which].position + at] ^= flip
    rows, error = _read(bytes(log))
    assert rows[:which] == true[:which]
    if at >= 8:
        # A size that became larger may end in the next batches: then none is whole.
        assert len(rows) == which
        assert error is None or isinstance(error, CorruptBatchError)
        assert error is not None or at < 12
    else:
        assert error is None or isinstance(error, CorruptBatchError)
        for before, after in zip(true, rows, strict=False):
            assert [{**row, "offset": 0} for row in before] == [
                {**row, "offset": 0} for row in after
            ]


@given(st.sampled_from(_FILES), st.data())
def test_a_cut_log_gives_its_whole_batches(path: Path, data: st.DataObject) -> None:
    log = path.read_bytes()
    cut = data.draw(st.integers(0, len(log)))
    whole = sum(header.end <= cut for header in headers_of(log))
    rows, error = _read(log[:cut])
    assert error is None
    assert rows == _read(log)[0][:whole]
