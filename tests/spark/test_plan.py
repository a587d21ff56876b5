"""What is planned and read, without a Spark session."""

import json
import pickle
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path

import fsspec.config
import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from servers import Bucket
from spark.oracle import TIER
from spark.schemas import headers_of, parse_schema
from support.segments import records, segment
from support.stores import KINDS, files_of, fill, make_place, open_store
from support.transactions import TransactionalLog, put_tiered
from support.wire import WireRecord, encode_batch
from tieredfs import Scan, open_tier
from tieredfs.errors import (
    CorruptBatchError,
    CorruptDataError,
    InvalidArgumentError,
    NotFoundError,
    PluginError,
    UnsupportedOperationError,
)
from tieredfs.spark.options import parse_options
from tieredfs.spark.record_reader import TieredFSReader
from tieredfs.spark.source import TieredFSDataSource
from tieredfs.spark.task_partition import TaskPartition
from tieredfs.spark.tasks import Task, make_tasks

MIB = 1 << 20
FOLDER = "big-0-AAAAAAAAAAAAAAAAAAAAAA"


def open_reader(
    schema: str = "", path: str = str(TIER), **options: str
) -> TieredFSReader:
    source = TieredFSDataSource({"path": path, "subscribe": "o3.alpha", **options})
    return reader_of(source, parse_schema(schema or source.schema()))


def reader_of(source: TieredFSDataSource, schema: StructType) -> TieredFSReader:
    reader = source.reader(schema)
    assert isinstance(reader, TieredFSReader)
    return reader


def read_all(reader: TieredFSReader) -> Iterator[pa.RecordBatch]:
    for partition in reader.partitions():
        yield from reader.read(partition)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    return make_place("local", request, tmp_path)


def make_sized(sizes: Iterable[int]) -> Scan:
    """Make a scan whose slices have these many bytes to fetch."""
    scan = open_tier(str(TIER)).topic("o3.alpha").scan()
    first = scan.plan.slices[0]
    slices = tuple(
        replace(first, start_offset=n, start_position=0, end_position=size)
        for n, size in enumerate(sizes)
    )
    partitions = (slices,) if slices else ()
    return replace(scan, plan=replace(scan.plan, partitions=partitions))


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ([], []),
        ([0], [[0]]),
        ([1, 1, 1], [[1, 1, 1]]),
        ([64, 64], [[64, 64]]),
        ([64, 65], [[64], [65]]),
        ([128, 1], [[128], [1]]),
        ([1, 1024, 1], [[1], [1024], [1]]),
        ([50, 50, 50, 50, 50], [[50, 50], [50, 50], [50]]),
    ],
    ids=str,
)
def test_neighbouring_segments_are_bundled_up_to_the_target(
    sizes: list[int], parts: list[list[int]]
) -> None:
    split = make_sized(size * MIB for size in sizes).split(128 * MIB)
    assert [[s.size // MIB for s in part.plan.slices] for part in split] == parts


def test_bundles_keep_the_order_and_leave_nothing_out() -> None:
    scan = make_sized((n * 37) % 100 * MIB for n in range(200))
    parts = scan.split(128 * MIB)
    assert tuple(s for part in parts for s in part.plan.slices) == scan.plan.slices
    assert all(part.plan.size <= 128 * MIB for part in parts)
    assert all(
        a.plan.size + b.plan.slices[0].size > 128 * MIB for a, b in pairwise(parts)
    )


def test_a_small_topic_is_one_task() -> None:
    assert len(open_reader(subscribe="o1").partitions()) == 1


def test_tasks_together_read_what_one_task_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = open_reader(subscribe="o1,o3.alpha")
    whole = pa.Table.from_batches(read_all(reader))
    monkeypatch.setattr(make_tasks, "__defaults__", (60_000,))
    assert len(reader.partitions()) > 5
    assert pa.Table.from_batches(read_all(reader)) == whole


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "memory"])
def test_records_are_the_same_by_changing_only_the_url(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = make_place(kind, request, tmp_path)
    fill(open_store(place), files_of(TIER))
    how = {"subscribe": "o1,o4,o5", "includeHeaders": "true"}
    expected = pa.Table.from_batches(read_all(open_reader(path=TIER.as_uri(), **how)))
    given = json.dumps(place.storage_options)
    reader = open_reader(path=place.url, storage_options=given, **how)
    got = pa.Table.from_batches(read_all(reader))
    assert got.num_rows == 3500 + 200 + 60
    assert got == expected


def test_a_topic_of_which_nothing_is_wanted_has_no_tasks() -> None:
    offsets = '{"o3.alpha": {"0": 30, "1": 30}}'
    reader = open_reader(startingOffsets=offsets, endingOffsets=offsets)
    assert reader.partitions() == []


def test_the_partition_that_spark_makes_up_when_there_are_none_has_no_records() -> None:
    assert list(open_reader().read(InputPartition(None))) == []


def test_what_spark_can_do_and_the_source_cannot_is_an_error_of_ours() -> None:
    source = TieredFSDataSource({"path": str(TIER), "subscribe": "o1"})
    schema = parse_schema(source.schema())
    for write in (source.writer, source.streamWriter):
        with pytest.raises(UnsupportedOperationError, match=r"does not write"):
            write(schema, overwrite=False)


def test_one_of_several_topics_of_a_name_is_chosen_by_its_id(place: Bucket) -> None:
    for letter, count in (("A", 3), ("B", 5)):
        log = encode_batch(records(0, count))
        fill(open_store(place), segment(f"big-0-{letter * 21}A", 0, log))
    for letter, count in (("A", 3), ("B", 5)):
        reader = open_reader(
            path=place.url, subscribe="big", topic_id=letter * 21 + "A"
        )
        assert pa.Table.from_batches(read_all(reader)).num_rows == count
    reader = open_reader(path=place.url, subscribe="big", topic_id="C" * 21 + "A")
    with pytest.raises(NotFoundError, match=r"C{21}A"):
        reader.partitions()


def test_a_pattern_leaves_out_topics_without_the_id(place: Bucket) -> None:
    for name, letter in (("big", "A"), ("bigger", "B")):
        log = encode_batch(records(0, 3))
        fill(open_store(place), segment(f"{name}-0-{letter * 21}A", 0, log))
    options = {"path": place.url, "subscribePattern": "big", "topic_id": "A" * 22}
    source = TieredFSDataSource(options)
    reader = reader_of(source, parse_schema(source.schema()))
    assert pa.Table.from_batches(read_all(reader)).num_rows == 3


def test_nothing_is_opened_before_it_is_planned() -> None:
    open_reader(path="s3://nowhere/at-all")


@pytest.mark.parametrize("headers", ["false", "true"])
def test_every_batch_has_the_schema_that_spark_makes_of_the_sources(
    headers: str, place: Bucket
) -> None:
    fill(open_store(place), segment(FOLDER, 0, _several_batches()))
    source = TieredFSDataSource(
        {"path": place.url, "subscribe": "big", "includeHeaders": headers}
    )
    schema = parse_schema(source.schema())
    batches = list(read_all(reader_of(source, schema)))
    assert len(batches) > 3
    assert {batch.schema for batch in batches} == {
        to_arrow_schema(schema, timezone="UTC", prefers_large_types=False)
    }


def test_batches_are_of_one_to_eight_mebibytes(place: Bucket) -> None:
    fill(open_store(place), segment(FOLDER, 0, _several_batches()))
    reader = open_reader(path=place.url, subscribe="big")
    sizes = [batch.nbytes for batch in read_all(reader)]
    assert all(size <= 8 * MIB for size in sizes)
    assert all(size >= MIB for size in sizes[:-1])


def test_a_users_schema_chooses_the_columns_and_their_order() -> None:
    reader = open_reader("offset bigint, timestamp timestamp, partition int")
    table = pa.Table.from_batches(read_all(reader))
    assert table.column_names == ["offset", "timestamp", "partition"]
    assert table.num_rows == 195


def test_a_users_schema_may_have_headers_without_the_option() -> None:
    schema = "headers array<struct<key:string,value:binary>>"
    assert pa.Table.from_batches(read_all(open_reader(schema))).num_rows == 195


@pytest.mark.parametrize(
    "schema",
    [
        "partition bigint",
        "offset int",
        "value string",
        "timestamp bigint",
        "headers array<struct<key:binary,value:binary>>",
        "nosuch int",
    ],
)
def test_a_users_schema_with_another_type_or_column_is_refused_with_what_there_is(
    schema: str,
) -> None:
    name, _, kind = schema.partition(" ")
    with pytest.raises(InvalidArgumentError, match=f"has {name} {kind}; .*key binary"):
        open_reader(schema)


_OFFSET = StructField("offset", LongType())
_NEVER_NULL = StructField("offset", LongType(), nullable=False)
_NEVER_EMPTY = ArrayType(headers_of(StringType()).elementType, containsNull=False)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([], "no column"),
        ([_OFFSET, _OFFSET], "offset more than once"),
        ([_NEVER_NULL], "offset bigint that may not be null"),
        ([StructField("headers", _NEVER_EMPTY)], "headers array.* may not be null"),
    ],
    ids=["empty", "repeated", "not null", "nested not null"],
)
def test_a_users_schema_that_no_batch_fits_is_refused_before_a_task_runs(
    fields: list[StructField], said: str
) -> None:
    source = TieredFSDataSource({"path": str(TIER), "subscribe": "o1"})
    with pytest.raises(
        InvalidArgumentError, match=f"the schema has {said}; the source"
    ):
        source.reader(StructType(fields))


@pytest.mark.parametrize("stamp", [1 << 62, -(1 << 62), (1 << 63) - 1, -(1 << 63)])
def test_a_timestamp_that_spark_cannot_hold_is_an_error_that_names_the_record(
    stamp: int, place: Bucket
) -> None:
    log = encode_batch(
        [WireRecord(0, 5), WireRecord(1, stamp), WireRecord(2, 6)],
        max_timestamp=max(stamp, 6),
    )
    fill(open_store(place), segment(FOLDER, 0, log))
    reader = open_reader("timestamp timestamp", place.url, subscribe="big")
    said = f"topic big partition 0 offset 1: .* timestamp of {stamp} ms"
    with pytest.raises(UnsupportedOperationError, match=said):
        list(read_all(reader))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_timestamps_that_spark_holds_are_read(
    sign: int, place: Bucket
) -> None:
    stamp = sign * (((1 << 63) - 1) // 1000)
    log = encode_batch([WireRecord(0, stamp)])
    fill(open_store(place), segment(FOLDER, 0, log))
    reader = open_reader("timestamp timestamp", place.url, subscribe="big")
    (batch,) = read_all(reader)
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [stamp * 1000]


def test_a_timestamp_that_is_not_asked_for_does_not_matter(place: Bucket) -> None:
    log = encode_batch([WireRecord(0, 1 << 62)])
    fill(open_store(place), segment(FOLDER, 0, log))
    reader = open_reader("offset bigint", place.url, subscribe="big")
    assert pa.Table.from_batches(read_all(reader)).num_rows == 1


def _expiring(
    place: Bucket, **options: str
) -> tuple[TieredFSReader, list[TaskPartition[Task]]]:
    """Plan four segments of ten records, of which the first is then deleted."""
    for start in range(0, 40, 10):
        log = encode_batch(records(start, 10))
        fill(open_store(place), segment(FOLDER, start, log))
    reader = open_reader(path=place.url, subscribe="big", cache_dir="", **options)
    planned = pickle.loads(pickle.dumps(reader.partitions()))  # noqa: S301 - our own
    store = open_store(place)
    store.delete([e.key for e in store.list() if f"/{0:020d}-" in e.key])
    return reader, planned


def test_a_query_of_committed_records_that_ends_in_an_open_transaction_is_a_loss(
    place: Bucket,
) -> None:
    log = TransactionalLog([("plain", 0, 5), ("data", 1, 3), ("plain", 0, 2)])
    fill(open_store(place), put_tiered(log))
    options = {
        "path": place.url,
        "subscribe": "t",
        "kafka.isolation.level": "read_committed",
        "endingOffsets": f'{{"t": {{"0": {log.end}}}}}',
    }
    with pytest.raises(CorruptDataError, match="last stable offset at 5"):
        open_reader("offset bigint", **options).partitions()
    lenient = open_reader("offset bigint", failOnDataLoss="false", **options)
    table = pa.Table.from_batches(read_all(lenient))
    assert table["offset"].to_pylist() == list(range(5))


def test_without_fail_on_data_loss_a_task_survives_retention(place: Bucket) -> None:
    reader, planned = _expiring(place, failOnDataLoss="false")
    found = [
        o
        for part in planned
        for b in reader.read(part)
        for o in b["offset"].to_pylist()
    ]
    assert found == list(range(10, 40))


@pytest.mark.parametrize("loss", ["true", "false"])
@pytest.mark.parametrize("parts", ["1", "7"])
def test_tasks_read_each_offset_once_from_segments_that_replace_those_of_their_plan(
    place: Bucket, loss: str, parts: str
) -> None:
    reader, planned = _expiring(place, failOnDataLoss=loss, minPartitions=parts)
    log = b"".join(encode_batch(records(start, 5)) for start in range(0, 15, 5))
    fill(open_store(place), segment(FOLDER, 0, log, name="stored again"))
    found = [
        o
        for part in planned
        for b in reader.read(part)
        for o in b["offset"].to_pylist()
    ]
    assert found == list(range(40))


def test_with_fail_on_data_loss_a_task_names_the_segment_that_is_gone_and_why(
    place: Bucket,
) -> None:
    reader, planned = _expiring(place)
    said = f"{0:020d}-.*deleted after the query was planned.*make the frame again"
    with pytest.raises(NotFoundError, match=said):
        list(chain.from_iterable(map(reader.read, planned)))


def test_a_batch_above_the_limit_is_read_with_the_option_that_the_error_names(
    place: Bucket,
) -> None:
    log = encode_batch(records(0, 5, value="v" * MIB), codec="gzip")
    fill(open_store(place), segment(FOLDER, 0, log))
    asked = {"path": place.url, "subscribe": "big"}
    name = "tieredfs.max_decompressed_bytes"
    with pytest.raises(CorruptBatchError, match="raise the option max_decompressed_"):
        list(read_all(open_reader(**asked, **{name: str(4 * MIB)})))
    reader = open_reader(**asked, **{name.upper(): "8M"})
    assert sum(batch.num_rows for batch in read_all(reader)) == 5


def test_tasks_read_and_hand_over_in_the_sizes_of_the_options(place: Bucket) -> None:
    log = b"".join(
        encode_batch(records(at, 10, value="v" * 1024)) for at in range(0, 500, 10)
    )
    fill(open_store(place), segment(FOLDER, 0, log))
    own = {"fetch_bytes": "100K", "output_batch_bytes": "65536"}
    options = {f"tieredfs.{name}": value for name, value in own.items()}
    reader = open_reader(path=place.url, subscribe="big", **options)
    (task,) = reader.partitions()
    assert isinstance(task, TaskPartition)
    (scan,) = task.task.scans
    assert scan.plan.fetch_size == 100 * 1024
    copy = pickle.loads(pickle.dumps(task))  # noqa: S301 - our own
    batches = list(reader.read(copy))
    assert sum(batch.num_rows for batch in batches) == 500
    assert all(batch.nbytes <= 65536 for batch in batches)


def test_reader_and_tasks_can_be_pickled_and_read_the_same() -> None:
    reader = open_reader()
    expected = pa.Table.from_batches(read_all(reader))
    copy = pickle.loads(pickle.dumps(reader))  # noqa: S301 - our own
    parts = pickle.loads(pickle.dumps(reader.partitions()))  # noqa: S301 - our own
    got = pa.Table.from_batches(batch for part in parts for batch in copy.read(part))
    assert got == expected


def test_secrets_that_were_given_travel_and_are_never_shown(s3_bucket: Bucket) -> None:
    fill(open_store(s3_bucket), _a_topic())
    reader = open_reader(
        path=s3_bucket.url,
        subscribe="big",
        storage_options=json.dumps(s3_bucket.storage_options),
    )
    (part,) = reader.partitions()
    assert isinstance(part, TaskPartition)
    secret = s3_bucket.storage_options["secret"]
    (scan,) = part.task.scans
    for shown in (reader, part, scan, scan.storage, reader.options):
        assert secret not in f"{shown!r}{shown}"
    copy = pickle.loads(pickle.dumps((reader, part)))  # noqa: S301 - our own
    assert pa.Table.from_batches(copy[0].read(copy[1])).num_rows == 3


def test_secrets_of_the_surroundings_do_not_travel(
    s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(open_store(s3_bucket), _a_topic())
    monkeypatch.setitem(fsspec.config.conf, "s3", s3_bucket.storage_options)
    reader = open_reader(path=s3_bucket.url, subscribe="big")
    parts = reader.partitions()
    (batch,) = reader.read(parts[0])
    assert batch.num_rows == 3
    pickled = pickle.dumps((reader, parts))
    for name in ("key", "secret"):
        assert s3_bucket.storage_options[name].encode() not in pickled


def test_without_pyspark_the_error_is_the_line_that_installs_it() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import tieredfs.spark"
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith("tieredfs.errors.PluginNotInstalledError: ")
    assert "pip install 'tieredfs[spark]'" in last


def _several_batches() -> bytes:
    """Make a log of 16 MiB in Arrow and a few KiB in store."""
    headers = ((b"h", None),)
    made = (
        WireRecord(offset, 1000 + offset, b"k", bytes(MIB), headers * (offset % 2))
        for offset in range(16)
    )
    return b"".join(encode_batch([record], codec="zstd") for record in made)


def _a_topic() -> dict[str, bytes]:
    return segment(FOLDER, 0, encode_batch(records(0, 3)))


@pytest.mark.parametrize(
    "options",
    [
        {"plugin": "tieredfs.storage.layouts.kafka_local:KafkaLocal"},
        {"storage_options": '{"tieredfs": {"plugin": "kafka-local"}}'},
    ],
    ids=["module:Class", "storage option"],
)
def test_a_plugin_is_named_as_everywhere_else(options: dict[str, str]) -> None:
    given = {"path": str(TIER), "subscribe": "o3.alpha", **options}
    reader = TieredFSReader(parse_options(given), ("offset",))
    rows = sum(batch.num_rows for batch in read_all(reader))
    assert rows == open_tier(str(TIER)).topic("o3.alpha").scan().to_table().num_rows > 0


def test_a_plugin_that_cannot_be_imported_is_said_when_the_query_is_planned() -> None:
    given = {"path": str(TIER), "subscribe": "o3.alpha", "plugin": "nowhere:Layout"}
    with pytest.raises(PluginError, match="'nowhere:Layout' cannot be imported"):
        TieredFSReader(parse_options(given), ("offset",)).partitions()
