"""Records → Arrow, against records that a simple model wrote."""

from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from support.golden import decode, headers_of, log_batches, rows_of
from support.wire import CODECS, CONTROL, WireRecord, encode_batch, xerial
from support.wire_logs import logs, row_of
from tieredfs.errors import CorruptBatchError, InvalidArgumentError
from tieredfs.format.batch.header import HEADER_SIZE
from tieredfs.format.batch.reader import scan_log
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.format.records.schema import COLUMNS, SCHEMA

pytestmark = pytest.mark.usefixtures("each_kernel")


@given(logs())
def test_records_come_out_as_they_were_written(
    log_and_rows: tuple[bytes, list[dict[str, Any]]],
) -> None:
    log, rows = log_and_rows
    table = decode(log)
    table.validate(full=True)
    assert rows_of(table) == rows


@given(logs(), st.lists(st.sampled_from(COLUMNS), unique=True, min_size=1))
def test_columns_are_those_asked_for_in_their_order(
    log_and_rows: tuple[bytes, list[dict[str, Any]]], columns: list[str]
) -> None:
    log, rows = log_and_rows
    table = decode(log, tuple(columns))
    assert table.schema == pa.schema([SCHEMA.field(name) for name in columns])
    assert rows_of(table) == [{name: row[name] for name in columns} for row in rows]


@given(logs(), st.integers(0, 1 << 61), st.integers(0, 40000))
def test_batches_cut_by_a_window_give_the_records_inside(
    log_and_rows: tuple[bytes, list[dict[str, Any]]], first: int, width: int
) -> None:
    log, rows = log_and_rows
    if rows:  # aim at the log rather than far beside it
        first = rows[0]["offset"] + first % 30000
    end = first + width
    cut = (b.within(first, end) for b in scan_log(log, name="log"))
    assert rows_of(decode(cut)) == [row for row in rows if first <= row["offset"] < end]


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_each_codec_carries_records_larger_than_one_of_its_blocks(codec: str) -> None:
    values = [bytes([number]) * 50_000 + b"\x80" for number in range(8)]
    records = [WireRecord(at, at, None, value) for at, value in enumerate(values)]
    table = decode(encode_batch(records, codec=codec), ("value",))
    assert table["value"].to_pylist() == values


def test_xerial_blocks_may_end_within_a_record() -> None:
    records = [WireRecord(at, at, b"key", b"value") for at in range(50)]
    plain = encode_batch(records)[HEADER_SIZE:]
    stored = xerial(plain, block=7)
    batch = encode_batch(records, codec="snappy", payload=stored)
    assert rows_of(decode(batch)) == rows_of(decode(encode_batch(records)))


def test_a_timestamp_that_wraps_comes_out_as_the_producer_meant_it() -> None:
    stamps = [(1 << 63) - 1, -(1 << 63), 0, -1]
    records = [WireRecord(at, stamp) for at, stamp in enumerate(stamps)]
    table = decode(encode_batch(records), ("timestamp",))
    assert [row["timestamp"] for row in rows_of(table)] == stamps


def test_timestamps_are_milliseconds_in_utc() -> None:
    (stamp,) = decode(encode_batch([WireRecord(0, 1_700_000_000_123)]))["timestamp"]
    assert stamp.as_py().isoformat() == "2023-11-14T22:13:20.123000+00:00"


def test_null_and_empty_are_told_apart() -> None:
    records = [
        WireRecord(0, 0),
        WireRecord(1, 0, b"", b"", ((b"", None), (b"", b""))),
    ]
    rows = rows_of(decode(encode_batch(records), ("key", "value", "headers")))
    assert rows == [
        {"key": None, "value": None, "headers": None},
        {
            "key": b"",
            "value": b"",
            "headers": [{"key": "", "value": None}, {"key": "", "value": b""}],
        },
    ]


@pytest.mark.parametrize("lanes", [1, 15, 16, 17, 40])
@pytest.mark.parametrize("most", [1, 16, 17, 70])
def test_headers_come_out_however_many_records_have_them(lanes: int, most: int) -> None:
    records = [
        WireRecord(
            at,
            0,
            b"k",
            b"v",
            tuple(
                (f"{at}.{number}".encode(), b"x" * (number * 9 % 200))
                for number in range((at * 7) % most + 1 if at % 3 else 0)
            ),
        )
        for at in range(lanes)
    ]
    rows = rows_of(decode(encode_batch(records)))
    assert rows == [row_of(record, 0, by_broker=False) for record in records]


@pytest.mark.parametrize("records", [1, 3])
def test_a_record_may_have_a_hundred_thousand_headers(records: int) -> None:
    headers = tuple((b"%d" % number, b"v") for number in range(100_000))
    batch = encode_batch(
        [WireRecord(at, 0, None, None, headers) for at in range(records)]
    )
    column = decode(batch, ("headers",))["headers"].combine_chunks()
    assert column.value_lengths().to_pylist() == [len(headers)] * records
    names = column.flatten().field("key").to_pylist()
    assert names == [str(number) for number in range(len(headers))] * records


def test_a_header_name_that_is_not_utf8_gets_replacement_characters() -> None:
    names = (b"a\xffb", b"ok", b"\xe2\x82", "é".encode())
    headers = tuple((name, b"1") for name in names)
    batch = encode_batch([WireRecord(0, 0, None, None, headers)])
    ((found,),) = decode(batch, ("headers",)).to_pydict().values()
    assert [header["key"] for header in found] == ["a�b", "ok", "�", "é"]


def test_control_batches_come_out_like_any_other() -> None:
    records = [WireRecord(0, 0, b"\0\0\0\1", b"\0\0\0\0\0\7")]
    batch = encode_batch(records, attributes=CONTROL)
    assert rows_of(decode(batch, ("key",))) == [{"key": b"\0\0\0\1"}]


def test_a_batch_without_records_gives_nothing() -> None:
    batch = encode_batch(
        base_offset=5, last_offset=9, count=0, codec="zstd", payload=b""
    )
    (header,) = headers_of(batch)
    assert (header.base_offset, header.last_offset, header.record_count) == (5, 9, 0)
    assert list(RecordDecoder("t", 0).decode(log_batches(batch))) == []


def test_the_topic_and_partition_are_those_of_the_decoder() -> None:
    batches = log_batches(encode_batch([WireRecord(7, 0)]))
    (found,) = RecordDecoder("orders", 12, ("partition", "topic")).decode(batches)
    assert found.to_pylist() == [{"partition": 12, "topic": "orders"}]


@pytest.mark.parametrize("columns", [("key", "key"), ("nokey",), ("key", "Value")])
def test_columns_that_are_unknown_or_named_twice_are_refused(
    columns: tuple[str, ...],
) -> None:
    with pytest.raises(InvalidArgumentError, match="choose from key, value"):
        _ = RecordDecoder("t", 0, columns).schema


def test_an_error_names_the_batch_of_a_group_that_is_wrong() -> None:
    good = encode_batch([WireRecord(0, 0, b"k")])
    bad = encode_batch([WireRecord(1, 0)], payload=b"\x0e\0\0\0\1\1\1\0")
    with pytest.raises(CorruptBatchError, match=rf"^log: .* {len(good)}: "):
        decode(good + bad + encode_batch([WireRecord(2, 0)]))


def test_the_last_offset_there_can_be_is_read() -> None:
    last = (1 << 63) - 1
    table = decode(encode_batch([WireRecord(last - 1, 0), WireRecord(last, 0)]))
    assert table["offset"].to_pylist() == [last - 1, last]


@pytest.mark.parametrize(
    "bad",
    [
        encode_batch([WireRecord(3, 0)])[:-1] + b"?",
        encode_batch([WireRecord(3, 0)], payload=b"\x0e\0\0\0\1\1\1\0"),
        encode_batch([WireRecord(3, 0)], codec="zstd", payload=b"x" * 9),
    ],
    ids=["checksum", "record", "compressed"],
)
def test_what_is_right_comes_out_before_the_error(bad: bytes) -> None:
    good = [encode_batch([WireRecord(at, 0, b"k")]) for at in range(3)]
    log = b"".join([*good, bad, encode_batch([WireRecord(4, 0)])])
    found: list[int] = []
    batches = RecordDecoder("t", 0).decode(scan_log(log, name="log"))
    with pytest.raises(CorruptBatchError):
        found.extend(o for batch in batches for o in batch["offset"].to_pylist())
    assert found == [0, 1, 2]
