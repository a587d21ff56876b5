"""Arrow → record batches, against the model's bytes and our own reader."""

from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from golden import decode, goldens, log_batches, rows_of
from tieredfs.errors import InvalidArgumentError
from tieredfs.format.batch import Codec, TimestampType, read_header
from tieredfs.format.batch_writer import BatchOptions, encode_batch
from tieredfs.format.records import RecordDecoder
from tieredfs.format.schema import HEADERS
from wire import WireRecord, xerial
from wire import encode_batch as model_batch

_INT64S = st.integers(-(1 << 63), (1 << 63) - 1)
_PAYLOADS = st.none() | st.binary(max_size=90)
_HEADERS = st.lists(
    st.tuples(st.text(max_size=6).map(str.encode), st.none() | st.binary(max_size=6)),
    max_size=5,
)


@st.composite
def wire_records(draw: st.DrawFn) -> list[WireRecord]:
    """Draw the records of a batch; offsets rise with gaps."""
    offset = draw(st.integers(0, 1 << 60))
    records = []
    for gap in draw(st.lists(st.integers(1, 9999), min_size=1, max_size=12)):
        headers = tuple(draw(_HEADERS))
        stamp, key, value = draw(_INT64S), draw(_PAYLOADS), draw(_PAYLOADS)
        records.append(WireRecord(offset, stamp, key, value, headers))
        offset += gap
    return records


def _arrow(records: list[WireRecord]) -> pa.RecordBatch:
    headers: list[list[dict[str, Any]] | None] = [
        [{"key": key.decode(), "value": value} for key, value in r.headers] or None
        for r in records
    ]
    return pa.RecordBatch.from_pydict(
        {
            "offset": pa.array([r.offset for r in records], pa.int64()),
            "timestamp": pa.array([r.timestamp for r in records], pa.int64()),
            "key": pa.array([r.key for r in records], pa.binary()),
            "value": pa.array([r.value for r in records], pa.binary()),
            "headers": pa.array(headers, HEADERS),
        }
    )


@given(wire_records())
def test_uncompressed_batches_are_the_bytes_of_the_model(
    records: list[WireRecord],
) -> None:
    written = encode_batch(_arrow(records), BatchOptions(leader_epoch=0))
    assert written == model_batch(records)


@given(wire_records(), st.sampled_from(Codec))
def test_what_is_written_is_read_back(records: list[WireRecord], codec: Codec) -> None:
    written = encode_batch(_arrow(records), BatchOptions(codec))
    assert read_header(written, 0).codec is codec
    assert rows_of(decode(written)) == rows_of(decode(model_batch(records)))


@pytest.mark.parametrize("codec", Codec)
def test_a_large_batch_is_read_back(codec: Codec) -> None:
    values = [bytes([number]) * 70_000 for number in range(40)]
    records = [WireRecord(at, at, None, value) for at, value in enumerate(values)]
    written = encode_batch(_arrow(records), BatchOptions(codec))
    assert decode(written, ("value",))["value"].to_pylist() == values


def test_snappy_is_written_in_the_blocks_that_java_reads() -> None:
    written = encode_batch(_arrow([WireRecord(0, 0)]), BatchOptions(Codec.SNAPPY))
    assert written[61:77] == xerial(b"")


def test_every_option_is_in_the_header() -> None:
    options = BatchOptions(
        Codec.ZSTD,
        leader_epoch=3,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        producer_id=9,
        producer_epoch=4,
        base_sequence=7,
        is_transactional=True,
        is_control=True,
        delete_horizon_ms=123,
    )
    batch = encode_batch(_arrow([WireRecord(5, 1000)]), options, last_offset=6)
    header = read_header(batch, 0)
    assert (header.codec, header.leader_epoch) == (Codec.ZSTD, 3)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (header.producer_id, header.producer_epoch) == (9, 4)
    assert (header.base_sequence, header.last_sequence) == (7, 8)
    assert header.is_transactional
    assert header.is_control
    assert (header.delete_horizon_ms, header.max_timestamp) == (123, 1000)


def test_a_batch_that_was_emptied_keeps_its_offsets() -> None:
    empty = _arrow([])
    header = read_header(encode_batch(empty, base_offset=5, last_offset=9), 0)
    assert (header.base_offset, header.last_offset, header.record_count) == (5, 9, 0)
    with pytest.raises(InvalidArgumentError):
        encode_batch(empty)


@pytest.mark.parametrize("offsets", [(5, 5), (6, 5), (0, 1 << 31), (-1, 5)])
def test_offsets_that_no_batch_can_hold_are_refused(offsets: tuple[int, int]) -> None:
    records = [WireRecord(offset, 0) for offset in offsets]
    with pytest.raises(InvalidArgumentError, match="must rise within an int32"):
        encode_batch(_arrow(records))


def test_an_int32_of_offsets_fits_a_batch() -> None:
    records = [WireRecord(0, 0), WireRecord((1 << 31) - 1, 0)]
    assert rows_of(decode(encode_batch(_arrow(records)))) == rows_of(
        decode(model_batch(records))
    )


def test_real_records_written_anew_are_the_same_records() -> None:
    names = ("offset", "timestamp", "key", "value", "headers")
    for golden in goldens(".log.expected.jsonl"):
        if not golden.source.parent.name.startswith(("v2-", "codecs-", "plain-")):
            continue
        for batch in log_batches(golden.read()):
            for piece in RecordDecoder("t", 0, names).decode([batch]):
                written = encode_batch(piece, BatchOptions(Codec.LZ4))
                assert rows_of(decode(written, names)) == rows_of(
                    decode([batch], names)
                )
