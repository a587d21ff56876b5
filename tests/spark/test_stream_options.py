"""The options of streaming queries: what differs from batch queries."""

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
)
from pyspark.sql.types import LongType, StructType

from tieredfs.errors import InvalidArgumentError
from tieredfs.spark.admission import Admission
from tieredfs.spark.options import SourceOptions, parse_stream_options
from tieredfs.spark.positions import EARLIEST, LATEST
from tieredfs.spark.record_reader import TieredFSReader
from tieredfs.spark.source import TieredFSDataSource
from tieredfs.spark.stream_reader import TieredFSStreamReader


def parse(**options: str) -> SourceOptions:
    return parse_stream_options({"path": "/t", "subscribe": "a", **options})


def test_a_stream_begins_at_latest_unless_it_is_said_where() -> None:
    assert parse().starting.everywhere == LATEST
    assert parse(startingOffsets=" Earliest").starting.everywhere == EARLIEST
    assert parse(startingOffsets="LATEST").starting.everywhere == LATEST
    given = '{"a":{"0":-1,"1":-2,"2":7}}'
    assert parse(startingOffsets=given).starting.each == {"a": {0: -1, 1: -2, 2: 7}}


@pytest.mark.parametrize(
    ("name", "noun"),
    [
        ("endingOffsets", "ending offset"),
        ("ENDINGOFFSETS", "ending offset"),
        ("endingOffsetsByTimestamp", "ending timestamp"),
        ("view", "view"),
    ],
)
def test_what_is_only_for_batch_queries_is_refused_by_name(
    name: str, noun: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"(?i){name}.*") as raised:
        parse(**{name: "x"})
    assert noun in str(raised.value)
    assert "not valid in streaming queries" in str(raised.value)


@pytest.mark.parametrize("value", ["1700000000000", "nonsense"])
def test_an_ending_time_is_ignored_as_in_kafkas_source(value: str) -> None:
    assert parse(endingTimestamp=value) == parse()


@pytest.mark.parametrize(
    ("delay", "milliseconds"),
    [
        ("15m", 900_000),
        ("2min", 120_000),
        ("50s", 50_000),
        (" 100MS ", 100),
        ("250us", 0),
        ("2500us", 2),
        ("1h", 3_600_000),
        ("3d", 259_200_000),
        ("17", 17),
        ("-5s", -5000),
    ],
)
def test_a_delay_is_read_as_spark_reads_a_duration(
    delay: str, milliseconds: int
) -> None:
    assert parse(maxTriggerDelay=delay).admission.max_delay_ms == milliseconds


@pytest.mark.parametrize("delay", ["soonish", "", "1.5s", "5 s", "5weeks", "s"])
def test_another_delay_is_refused_with_the_option_and_the_text(delay: str) -> None:
    with pytest.raises(InvalidArgumentError, match="option 'maxTriggerDelay'") as told:
        parse(maxTriggerDelay=delay)
    assert f"Failed to parse time string: {delay}" in str(told.value)


@pytest.mark.parametrize("name", ["minOffsetsPerTrigger", "maxOffsetsPerTrigger"])
@pytest.mark.parametrize("value", ["ten", "", "1.0", "9223372036854775808"])
def test_a_limit_that_is_no_number_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"option '{name}': For input str"):
        parse(**{name: value})


def test_a_negative_limit_is_refused_and_nought_is_not() -> None:
    with pytest.raises(InvalidArgumentError, match="option 'maxOffsetsPerTrigger': -3"):
        parse(maxOffsetsPerTrigger="-3")
    assert parse(maxOffsetsPerTrigger="0").admission == Admission(max_offsets=0)


def test_a_smallest_number_above_the_largest_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"minOffsetPerTrigger\(50\) is hig"):
        parse(minOffsetsPerTrigger="50", maxOffsetsPerTrigger="10")


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "7"}, ReadMaxRows(7)),
        ({"minOffsetsPerTrigger": "5"}, ReadMinRows(5)),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "7"}, ReadMinRows(5)),
    ],
)
def test_spark_is_given_the_limit_of_a_trigger(
    options: dict[str, str], limit: ReadLimit
) -> None:
    reader = TieredFSStreamReader(parse(**options), ("offset",))
    assert reader.getDefaultReadLimit() == limit


def source(**options: str) -> TieredFSDataSource:
    return TieredFSDataSource({"path": "/t", "subscribe": "a", **options})


def test_what_only_one_kind_of_query_takes_is_refused_when_that_kind_is_run() -> None:
    schema = StructType().add("offset", LongType())
    latest = source(startingoffsets="latest")
    assert latest.schema()
    assert isinstance(latest.streamReader(schema), TieredFSStreamReader)
    with pytest.raises(InvalidArgumentError, match="can't be latest for batch"):
        latest.reader(schema)
    ending = source(endingoffsets="latest")
    assert ending.schema()
    assert isinstance(ending.reader(schema), TieredFSReader)
    with pytest.raises(InvalidArgumentError, match="not valid in streaming"):
        ending.streamReader(schema)


def test_what_neither_kind_of_query_takes_is_refused_when_the_frame_is_made() -> None:
    with pytest.raises(InvalidArgumentError, match="minPartitions must be positive"):
        source(minpartitions="0").schema()
