"""Batch headers: what is read, what is refused, and where the error locates it."""

import struct
import tracemalloc

import hypothesis.strategies as st
import pytest
from hypothesis import given

from support.golden import decode, headers_of
from support.wire import CODECS, WireRecord, encode_batch, encode_varint, frame, seal
from tieredfs.errors import CorruptBatchError, TieredFSError, UnsupportedFormatError
from tieredfs.format.batch.header import HEADER_SIZE, TimestampType
from tieredfs.format.batch.reader import claimed_size, read_header
from tieredfs.format.compression.codec import Codec

pytestmark = pytest.mark.usefixtures("each_kernel")

_RECORDS = [WireRecord(10, 1000, b"k", b"v"), WireRecord(12, 1002, b"k", b"v")]
_INT64_MAX = (1 << 63) - 1
_INT32_MAX = (1 << 31) - 1


def _patched(batch: bytes, at: int, layout: str, value: int) -> bytes:
    """Change a field of a batch, its checksum made right again."""
    changed = bytearray(batch)
    struct.pack_into(layout, changed, at, value)
    return seal(changed)


def test_a_header_has_what_was_written() -> None:
    batch = encode_batch(
        _RECORDS,
        codec="lz4",
        attributes=0x08 | 0x10 | 0x20 | 0x40,
        leader_epoch=7,
        producer_id=1 << 40,
        producer_epoch=3,
        base_sequence=5,
        max_timestamp=2000,
    )
    header = read_header(batch, 0)
    assert (header.position, header.size, header.end) == (0, len(batch), len(batch))
    assert (header.base_offset, header.last_offset, header.record_count) == (10, 12, 2)
    assert (header.leader_epoch, header.codec) == (7, Codec.LZ4)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 2000)
    assert (header.producer_id, header.producer_epoch) == (1 << 40, 3)
    assert (header.base_sequence, header.last_sequence) == (5, 7)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.is_transactional
    assert header.is_control
    assert header.delete_horizon_ms == 1000


def test_a_plain_header_has_no_flags() -> None:
    header = read_header(encode_batch(_RECORDS, leader_epoch=-1), 0)
    assert header.codec is Codec.NONE
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert not header.is_transactional
    assert not header.is_control
    assert header.delete_horizon_ms is None
    assert (header.leader_epoch, header.last_sequence) == (-1, -1)


def test_sequences_wrap_to_zero() -> None:
    header = read_header(encode_batch(_RECORDS, base_sequence=_INT32_MAX), 0)
    assert header.last_sequence == 1


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_read(kind: type[bytes]) -> None:
    log = kind(encode_batch(_RECORDS) * 1)
    assert [header.base_offset for header in headers_of(log)] == [10]


def test_positions_are_those_in_the_log() -> None:
    first, second = encode_batch(_RECORDS), encode_batch([WireRecord(20, 0)])
    headers = list(headers_of(first + second, offset=5000))
    assert [header.position for header in headers] == [5000, 5000 + len(first)]
    assert read_header(first + second, len(first), offset=5000) == headers[1]


@given(st.integers(0, 400))
def test_a_cut_log_gives_its_whole_batches(cut: int) -> None:
    batches = [encode_batch([WireRecord(at, at, b"key", b"value")]) for at in range(4)]
    log = b"".join(batches)
    whole = min(cut, len(log)) // len(batches[0])
    headers = list(headers_of(log[:cut]))
    assert [header.base_offset for header in headers] == list(range(whole))


def test_the_size_that_is_missing_can_be_asked_for() -> None:
    batch = encode_batch(_RECORDS)
    assert claimed_size(batch[:11], 0) is None
    assert claimed_size(batch[:12], 0) == len(batch)
    assert claimed_size(b"xx" + batch, 2) == len(batch)


@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, 4])
def test_a_length_below_that_of_any_batch_is_corrupt(length: int) -> None:
    batch = encode_batch(_RECORDS, length=length)
    for read in (claimed_size, read_header):
        with pytest.raises(CorruptBatchError, match=rf"^x: .* 0: .* {length} "):
            read(batch, 0, name="x")


@pytest.mark.parametrize("length", [5, 20, 48])
def test_a_batch_smaller_than_its_header_is_corrupt(length: int) -> None:
    batch = encode_batch(_RECORDS, length=length)
    with pytest.raises(CorruptBatchError, match="too few for a batch header"):
        list(headers_of(batch))


def test_a_batch_that_claims_two_gib_allocates_nothing() -> None:
    batch = encode_batch(_RECORDS, length=_INT32_MAX)
    tracemalloc.start()
    try:
        assert list(headers_of(batch)) == []
        with pytest.raises(
            CorruptBatchError, match=r"cut off after \d+ bytes of 2147483659"
        ):
            read_header(batch, 0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("count", [_INT32_MAX, -1, -(1 << 31), 4])
def test_a_count_that_cannot_be_is_corrupt(count: int) -> None:
    batch = encode_batch(_RECORDS, count=count)
    with pytest.raises(CorruptBatchError, match=f"record count {count} is not in 0"):
        read_header(batch, 0)


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_a_count_of_two_thousand_million_takes_no_memory(codec: str) -> None:
    batch = encode_batch(
        _RECORDS, codec=codec, count=_INT32_MAX, last_offset=10 + _INT32_MAX
    )
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatchError):
            decode(batch)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


@pytest.mark.parametrize("delta", [-1, -(1 << 31)])
def test_a_batch_that_ends_before_it_begins_is_corrupt(delta: int) -> None:
    with pytest.raises(CorruptBatchError, match=r"^log: batch at position 0: "):
        read_header(encode_batch(_RECORDS, last_offset=10 + delta), 0)


@pytest.mark.parametrize("base", [-1, -(1 << 63)])
def test_a_negative_base_offset_is_corrupt(base: int) -> None:
    batch = _patched(encode_batch(_RECORDS), 0, ">q", base)
    with pytest.raises(CorruptBatchError, match=r"^log: batch at position 0: "):
        read_header(batch, 0)


@pytest.mark.parametrize("epoch", [-2, -(1 << 31)])
def test_a_negative_leader_epoch_is_corrupt(epoch: int) -> None:
    with pytest.raises(CorruptBatchError, match=f"epoch {epoch}"):
        read_header(encode_batch(_RECORDS, leader_epoch=epoch), 0)


def test_offsets_past_64_bits_are_corrupt() -> None:
    batch = _patched(encode_batch(_RECORDS), 0, ">q", _INT64_MAX - 1)
    with pytest.raises(CorruptBatchError, match=r"^log: batch at position 0: "):
        read_header(batch, 0)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_batch_whose_magic_became_that_of_a_message_is_corrupt(magic: int) -> None:
    with pytest.raises(
        CorruptBatchError, match=r"^x: batch at position 3: CRC-32 does not match"
    ):
        read_header(encode_batch(_RECORDS, magic=magic), 0, offset=3, name="x")


@pytest.mark.parametrize("magic", [3, 127])
def test_magic_that_does_not_exist_is_corrupt(magic: int) -> None:
    with pytest.raises(CorruptBatchError, match=f"magic {magic}"):
        read_header(encode_batch(_RECORDS, magic=magic), 0)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_is_not_known_is_unsupported(codec: int) -> None:
    with pytest.raises(UnsupportedFormatError, match=f"codec {codec} at position 0"):
        read_header(encode_batch(_RECORDS, attributes=codec), 0)


@pytest.mark.parametrize("after", [10, 11, 1 << 40])
def test_a_batch_below_what_came_before_is_corrupt(after: int) -> None:
    assert len(list(headers_of(encode_batch(_RECORDS), after=9))) == 1
    with pytest.raises(
        CorruptBatchError, match=f"base offset 10 follows offset {after}"
    ):
        list(headers_of(encode_batch(_RECORDS), after=after))


def test_batches_that_overlap_are_corrupt() -> None:
    first, second = encode_batch(_RECORDS), encode_batch([WireRecord(12, 0)])
    with pytest.raises(CorruptBatchError, match=rf"^x: .* {len(first)}: .*follows"):
        list(headers_of(first + second, name="x"))


@given(st.binary(max_size=120), st.integers(0, 40))
def test_arbitrary_bytes_end_in_batches_or_in_a_typed_error(
    data: bytes, position: int
) -> None:
    for read in (
        lambda: list(headers_of(data)),
        lambda: read_header(data, min(position, len(data))),
        lambda: claimed_size(data, min(position, len(data))),
    ):
        try:
            read()
        except TieredFSError:
            continue


def _record(*fields: bytes) -> bytes:
    return frame(b"\0" + b"".join(fields))


_ZERO, _ONE, _NULL = encode_varint(0), encode_varint(1), encode_varint(-1)
_HUGE = encode_varint(_INT32_MAX)
_WHOLE = _record(_ZERO, _ZERO, _NULL, _NULL, _ZERO)


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(_WHOLE + b"\0", id="bytes after the last record"),
        pytest.param(_WHOLE + _WHOLE, id="more records than the count"),
        pytest.param(_WHOLE[:-1], id="a record cut off"),
        pytest.param(_NULL + bytes(8), id="a negative record length"),
        pytest.param(_HUGE + bytes(8), id="a huge record length"),
        pytest.param(b"\x80" * 9, id="a record length without an end"),
        pytest.param(b"\x0c" + b"\x80" * 6, id="a delta without an end"),
        pytest.param(b"\x0c" + bytes(3), id="a record that runs past the batch"),
        pytest.param(_record(_ZERO, _ONE, _NULL, _NULL, _ZERO), id="an offset past it"),
        pytest.param(_record(_ZERO, _NULL, _NULL, _NULL, _ZERO), id="an offset below"),
        pytest.param(
            _record(_ZERO, _ZERO, encode_varint(-2), _NULL, _ZERO), id="a key of -2"
        ),
        pytest.param(_record(_ZERO, _ZERO, _HUGE, _NULL, _ZERO), id="a huge key"),
        pytest.param(_record(_ZERO, _ZERO, _NULL, _HUGE, _ZERO), id="a huge value"),
        pytest.param(
            _record(_ZERO, _ZERO, _NULL, encode_varint(2), b"v", _ZERO),
            id="a value over the header count",
        ),
        pytest.param(
            _record(_ZERO, _ZERO, _NULL, _NULL, _ZERO, b"\0"), id="a byte more"
        ),
        pytest.param(_record(_ZERO, _ZERO, _NULL, _NULL, _NULL), id="headers: -1"),
        pytest.param(
            _record(_ZERO, _ZERO, _NULL, _NULL, _HUGE, _ZERO), id="headers: huge"
        ),
        pytest.param(
            _record(_ZERO, _ZERO, _NULL, _NULL, _ONE, _NULL, _NULL), id="a null header"
        ),
        pytest.param(
            _record(_ZERO, _ZERO, _NULL, _NULL, _ONE, _HUGE, _NULL), id="a huge header"
        ),
        pytest.param(
            _record(_ZERO, _ZERO, _NULL, _NULL, _ONE, _ZERO, _ZERO, _ZERO),
            id="a byte after the headers",
        ),
        pytest.param(b"", id="no records"),
    ],
)
def test_records_that_are_not_records_are_corrupt(codec: str, payload: bytes) -> None:
    stored = CODECS[codec].compress(payload)
    batch = encode_batch(codec=codec, payload=stored, count=1)
    if codec == "none" and len(batch) < HEADER_SIZE + 7:
        with pytest.raises(CorruptBatchError, match="record count 1 is not in 0"):
            decode(batch)
        return
    with pytest.raises(CorruptBatchError, match=r"^log: batch at position 0: "):
        decode(batch)
    if payload:  # nothing is read from the batch after it, either
        with pytest.raises(CorruptBatchError, match=r"^log: batch at position 0: "):
            decode(batch + encode_batch([WireRecord(1, 0, b"k" * 99, b"v")]))


@pytest.mark.parametrize("offsets", [(0, 0), (1, 0)])
def test_offsets_that_do_not_increase_within_a_batch_are_corrupt(
    offsets: tuple[int, int],
) -> None:
    records = [WireRecord(offset, 0) for offset in offsets]
    batch = encode_batch(records, base_offset=0, last_offset=1)
    with pytest.raises(CorruptBatchError, match="offsets do not increase"):
        decode(batch)
