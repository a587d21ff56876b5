"""Arrow → record batches, against the model's bytes and our own reader."""

from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

import tieredfs.format.records.writer
from support.golden import decode, goldens, log_batches, rows_of
from support.wire import WireRecord, xerial
from support.wire import encode_batch as model_batch
from tieredfs.errors import InvalidArgumentError
from tieredfs.format.batch.header import TimestampType
from tieredfs.format.batch.reader import read_header
from tieredfs.format.compression.codec import Codec
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.format.records.schema import HEADERS
from tieredfs.format.records.writer import BatchOptions, encode_batch

pytestmark = pytest.mark.usefixtures("each_kernel")

_INT64S = st.integers(-(1 << 63), (1 << 63) - 1)
_PAYLOADS = st.none() | st.binary(max_size=90)
_HEADERS = st.lists(
    st.tuples(st.text(max_size=6).map(str.encode), st.none() | st.binary(max_size=6)),
    max_size=5,
)


@st.composite
def wire_records(draw: st.DrawFn) -> list[WireRecord]:
    """Draw the records of a batch; offsets increase with gaps."""
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


_WRITTEN_TYPES = [TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]


def test_a_batch_without_timestamps_is_refused() -> None:
    options = BatchOptions(timestamp_type=TimestampType.NO_TIMESTAMP)
    with pytest.raises(InvalidArgumentError, match="NO_TIMESTAMP"):
        encode_batch(_arrow([WireRecord(7, 0)]), options)


@st.composite
def batch_options(draw: st.DrawFn) -> BatchOptions:
    """Draw the options of a batch."""
    return BatchOptions(
        draw(st.sampled_from(Codec)),
        leader_epoch=draw(st.integers(-1, (1 << 31) - 1)),
        timestamp_type=draw(st.sampled_from(_WRITTEN_TYPES)),
        producer_id=draw(st.integers(-1, (1 << 63) - 1)),
        producer_epoch=draw(st.integers(-1, (1 << 15) - 1)),
        base_sequence=draw(st.integers(-1, (1 << 31) - 1)),
        is_transactional=draw(st.booleans()),
        is_control=draw(st.booleans()),
        delete_horizon_ms=draw(st.none() | _INT64S),
    )


@given(
    st.just([]) | wire_records(),
    batch_options(),
    st.integers(0, 5),
    st.integers(0, 1 << 30),
)
def test_any_records_under_any_options_are_read_back(
    records: list[WireRecord], options: BatchOptions, before: int, after: int
) -> None:
    first, last = (records[0], records[-1]) if records else [WireRecord(7, 0)] * 2
    base, end = max(first.offset - before, 0), last.offset + after
    batch = encode_batch(_arrow(records), options, base_offset=base, last_offset=end)

    header = read_header(batch, 0)
    stamps = [record.timestamp for record in records]
    assert (header.base_offset, header.last_offset) == (base, end)
    assert header.record_count == len(records)
    assert header.max_timestamp == max(stamps, default=-1)
    found = BatchOptions(
        header.codec,
        header.leader_epoch,
        header.timestamp_type,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.is_transactional,
        header.is_control,
        header.delete_horizon_ms,
    )
    assert found == options

    by_broker = options.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert rows_of(decode(batch)) == [
        {
            "key": record.key,
            "value": record.value,
            "topic": "t",
            "partition": 0,
            "offset": record.offset,
            "timestamp": max(stamps) if by_broker else record.timestamp,
            "timestampType": int(by_broker),
            "headers": [
                {"key": key.decode(), "value": value} for key, value in record.headers
            ]
            or None,
        }
        for record in records
    ]


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
    with pytest.raises(
        InvalidArgumentError, match="must strictly increase and span at most an int32"
    ):
        encode_batch(_arrow(records))


@pytest.mark.parametrize(
    ("base", "last"), [(6, 5), (-1, 5), (0, 1 << 31), ((1 << 63) - 2, 1 << 63)]
)
def test_bounds_that_no_batch_can_have_are_refused(base: int, last: int) -> None:
    with pytest.raises(
        InvalidArgumentError, match="must strictly increase and span at most an int32"
    ):
        encode_batch(_arrow([]), base_offset=base, last_offset=last)


@pytest.mark.parametrize(("base", "last"), [(6, None), (None, 4), (0, 4)])
def test_records_outside_the_bounds_of_their_batch_are_refused(
    base: int | None, last: int | None
) -> None:
    with pytest.raises(
        InvalidArgumentError, match="must strictly increase and span at most an int32"
    ):
        encode_batch(_arrow([WireRecord(5, 0)]), base_offset=base, last_offset=last)


def test_a_batch_may_end_with_the_last_offset_there_is() -> None:
    batch = encode_batch(_arrow([WireRecord((1 << 63) - 1, 0)]))
    assert read_header(batch, 0).last_offset == (1 << 63) - 1


@pytest.mark.parametrize(
    "options",
    [
        BatchOptions(leader_epoch=1 << 31),
        BatchOptions(producer_id=1 << 63),
        BatchOptions(producer_epoch=1 << 15),
        BatchOptions(base_sequence=1 << 31),
        BatchOptions(delete_horizon_ms=1 << 63),
    ],
)
def test_an_option_outside_its_range_is_refused(options: BatchOptions) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^BatchOptions\("):
        encode_batch(_arrow([WireRecord(0, 0)]), options)


def test_more_bytes_than_a_batch_may_have_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tieredfs.format.records.writer, "MAX_DECOMPRESSED", 1000)
    assert encode_batch(_arrow([WireRecord(0, 0, None, bytes(990))]))
    with pytest.raises(InvalidArgumentError, match="bytes of records exceed"):
        encode_batch(_arrow([WireRecord(0, 0, None, bytes(1000))]))


def _with(name: str, column: pa.Array) -> pa.RecordBatch:
    columns = {
        "offset": pa.array([5], pa.int64()),
        "timestamp": pa.array([1000], pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns | {name: column})


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("offset", pa.array([None], pa.int64())),
        ("offset", pa.array(["five"])),
        ("timestamp", pa.array([None], pa.timestamp("ms"))),
        ("timestamp", pa.array([1], pa.timestamp("us"))),  # less than a millisecond
        ("key", pa.array([1], pa.int64())),
        ("headers", pa.array([[{"key": None, "value": b"v"}]], HEADERS)),
        ("headers", pa.array([[None]], HEADERS)),
        ("headers", pa.array([b"header"])),
    ],
)
def test_a_column_that_no_batch_can_hold_is_refused_by_name(
    name: str, column: pa.Array
) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"column {name}|header has no key"):
        encode_batch(_with(name, column))


@pytest.mark.parametrize("name", ["offset", "timestamp", "key", "value", "headers"])
def test_a_column_that_is_there_twice_is_named(name: str) -> None:
    records = _arrow([WireRecord(0, 0)])
    twice = records.append_column(name, records[name])
    with pytest.raises(InvalidArgumentError, match=f"^column {name}: appears 2 times"):
        encode_batch(twice)


@pytest.mark.parametrize("missing", ["offset", "timestamp"])
def test_a_column_that_is_missing_is_named(missing: str) -> None:
    records = _arrow([WireRecord(0, 0)])
    kept = [name for name in records.schema.names if name != missing]
    with pytest.raises(InvalidArgumentError, match=f"^column {missing}: "):
        encode_batch(records.select(kept))


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("timestamp", pa.array([1], pa.timestamp("s", tz="UTC"))),
        ("timestamp", pa.array([1_000_000], pa.timestamp("us"))),
        ("key", pa.array(["key"], pa.string())),
        ("value", pa.array([b"value"], pa.large_binary())),
        ("offset", pa.array([5], pa.int32())),
    ],
)
def test_columns_of_kindred_types_are_taken_for_what_they_say(
    name: str, column: pa.Array
) -> None:
    (row,) = rows_of(decode(encode_batch(_with(name, column))))
    expected = {"offset": 5, "timestamp": 1000, "key": b"key", "value": b"value"}
    assert row[name] == expected[name]


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
