"""What Python data sources trip over in Spark: each trap is held open by a test.

Their numbers are those of the report on PySpark in the project's research.
"""

import gc
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructType

from servers import Bucket
from spark.conftest import Load
from spark.oracle import TIER
from spark.questions import (
    PUSH_DOWN,
    Query,
    configured,
    import_error_of,
    rows_of,
)
from spark.sessions import ApartSession
from support.segments import records, segment
from support.stores import CLOUDS, files_of, fill, make_place, open_store
from support.wire import encode_batch
from tieredfs import ObjectStore
from tieredfs.spark import TieredFSDataSource
from tieredfs.spark.record_reader import FilteringReader, TieredFSReader
from tieredfs.spark.stream_reader import TieredFSStreamReader
from tieredfs.spark.view_columns import VIEWS

OFFSET = StructType().add("offset", LongType())
FOLDER = "big-0-AAAAAAAAAAAAAAAAAAAAAA"


def ten_records(start: int) -> dict[str, bytes]:
    """Make a segment."""
    return segment(FOLDER, start, encode_batch(records(start, 10)))


def reader_of(path: str, schema: StructType, **options: str) -> DataSourceReader:
    return TieredFSDataSource({"path": path, **options}).reader(schema)


def batches_of(reader: DataSourceReader) -> Iterator[pa.RecordBatch]:
    for partition in reader.partitions():
        yield from reader.read(partition)


# 2. One planner process serves all queries of a session, with its clients' listings.


@pytest.mark.parametrize("kind", CLOUDS)
def test_a_planner_that_has_listed_the_tier_lists_it_anew(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = make_place(kind, request, tmp_path)
    options = {"storage_options": json.dumps(place.storage_options), "subscribe": "big"}
    for start in (0, 10):
        fill(open_store(place), ten_records(start))
        rows = sum(
            batch.num_rows
            for batch in batches_of(reader_of(place.url, OFFSET, **options))
        )
        assert rows == start + 10
        # As another user of the process would fill the cache of fsspec's own client.
        fsspec.url_to_fs(place.url, **place.storage_options)[0].find(place.url)


def test_a_frame_made_later_sees_segments_that_were_added(
    load: Load, s3_bucket: Bucket
) -> None:
    files = {k: v for k, v in files_of(TIER).items() if k.startswith("o3.beta-")}
    late = {key: data for key, data in files.items() if f"/{80:020d}-" in key}
    store = open_store(s3_bucket)
    options = {
        "subscribe": "o3.beta",
        "storage_options": json.dumps(s3_bucket.storage_options),
    }
    fill(store, {key: data for key, data in files.items() if key not in late})
    assert load(options, s3_bucket.url).count() == 80
    fill(store, late)
    assert load(options, s3_bucket.url).count() == 120


# 4. A reader that takes filters fails every query while Spark's push-down is off.


def test_spark_refuses_a_source_that_takes_filters_while_push_down_is_off(
    spark: SparkSession,
) -> None:
    # Made here, so that they travel whole: Spark's processes do not have this module.
    class GreedyReader(DataSourceReader):
        def pushFilters(self, filters):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202, N802 - Spark's
            return filters

        def read(self, partition):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            del partition
            yield (1,)

    class GreedySource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "greedy"

        def schema(self) -> str:
            return "offset bigint"

        def reader(self, schema):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            del schema
            return GreedyReader()

    spark.dataSource.register(GreedySource)
    with (
        configured(spark, {PUSH_DOWN: "false"}),
        pytest.raises(AnalysisException, match="DATA_SOURCE_PUSHDOWN_DISABLED"),
    ):
        spark.read.format("greedy").load().count()


def test_a_query_runs_whether_push_down_is_on_or_off_and_reads_less_when_it_is_on(
    load: Load, spark: SparkSession
) -> None:
    tasks = []
    for enabled in ("false", "true", "false"):
        with configured(spark, {PUSH_DOWN: enabled}):
            options = {"subscribe": "o1", "minPartitions": "9", "push_filters": "true"}
            frame = load(options)
            few = frame.where("partition = 1 and offset < 4")
            assert few.count() == 4
            tasks.append(few.rdd.getNumPartitions())
    assert tasks[0] == tasks[2] > tasks[1]


def test_a_frame_that_is_used_twice_has_its_rows_while_push_down_is_on(
    load: Load, spark: SparkSession
) -> None:
    with configured(spark, {PUSH_DOWN: "true"}):
        frame = load({"subscribe": "o1"})
        both = [frame.where(f"partition = {number}") for number in (0, 1)]
        assert [part.count() for part in both] == [3000, 500]
        assert both[0].union(both[1]).count() == 3500
        assert frame.count() == 3500


def test_spark_reads_all_uses_of_a_frame_as_the_last_filters_planned_it(
    load: Load, spark: SparkSession
) -> None:
    # Where this fails, Spark is mended, and the option `push_filters` not needed.
    with configured(spark, {PUSH_DOWN: "true"}):
        frame = load({"subscribe": "o1", "push_filters": "true"})
        assert frame.where("partition = 1").count() == 500
        assert frame.count() == 500


def test_a_reader_takes_no_filters_unless_spark_is_about_to_give_them() -> None:
    reader = reader_of(str(TIER), OFFSET, subscribe="o1")
    assert type(reader) is TieredFSReader
    assert not issubclass(TieredFSReader, FilteringReader)
    assert TieredFSReader.pushFilters is DataSourceReader.pushFilters


# 5. Of a plan without partitions Spark makes one whose value is None.


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_a_query_of_which_nothing_is_wanted_has_no_rows(
    enabled: str, load: Load, spark: SparkSession
) -> None:
    with configured(spark, {PUSH_DOWN: enabled}):
        assert load({"subscribePattern": "no-topic-has-this-name"}).collect() == []
        assert load({"assign": "{}"}).collect() == []
        assert load({"assign": "{}", "view": "segments"}).collect() == []
        one = load({"subscribe": "o1", "push_filters": "true"})
        assert one.where("partition = 7").collect() == []


def test_the_partition_that_spark_makes_up_has_no_rows(load: Load) -> None:
    for options in ({"subscribe": "o1"}, {"view": "offsets"}):
        schema = load(options).schema
        reader = reader_of(str(TIER), schema, **options)
        assert list(reader.read(InputPartition(None))) == []


# 6. Spark checks the first batch of a task alone.


@pytest.mark.parametrize(
    ("options", "schema"),
    [
        ({"subscribePattern": ""}, ""),
        ({"subscribePattern": "", "includeHeaders": "true"}, ""),
        ({"subscribePattern": "", "columns": "timestamp, topic"}, ""),
        ({"subscribePattern": ""}, "topic string, key binary, timestampType int"),
        *(({"view": view}, "") for view in VIEWS),
    ],
    ids=str,
)
def test_every_batch_has_exactly_the_schema_of_the_query(
    options: dict[str, str], schema: str, load: Load
) -> None:
    if "subscribePattern" in options:  # small batches, of all topics
        options = options | {
            "subscribePattern": ".",
            "failOnDataLoss": "false",
            "tieredfs.output_batch_bytes": "65536",
        }
    fields = load(options, schema=schema).schema
    batches = list(batches_of(reader_of(str(TIER), fields, **options)))
    assert len(batches) >= (1 if "view" in options else 10)
    expected = to_arrow_schema(fields, timezone="UTC", prefers_large_types=False)
    assert [batch.schema for batch in batches if batch.schema != expected] == []
    assert not any(
        pa.types.is_dictionary(kind) or pa.types.is_large_binary(kind)
        for kind in expected.types
    )


# 7. A frame is planned once: its actions read what its first one has planned.


def test_a_frame_that_was_run_stays_as_it_was_planned_and_a_new_one_sees_more(
    load: Load, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store = open_store(place := make_place("local", request, tmp_path))
    fill(store, ten_records(0))
    frame = load({"subscribe": "big"}, place.url)
    assert frame.count() == 10
    fill(store, ten_records(10))
    assert frame.count() == 10
    assert load({"subscribe": "big"}, place.url).count() == 20


# 9. One broken package named pyspark_* ends the search for sources, without a word.


@pytest.mark.xdist_group("local-cluster")
def test_a_broken_package_of_another_source_does_not_hide_ours(
    local_cluster: ApartSession,
) -> None:
    said = local_cluster.ask(import_error_of, "pyspark_broken")
    assert "ImportError: a package that is broken" in said
    query = Query(str(TIER), {"subscribe": "o3.beta", "columns": "offset"})
    rows = local_cluster.ask(rows_of, query)
    assert sorted(row["offset"] for row in rows) == list(range(120))


# 1. Where a stream begins is not logged, and asked again when its first batch is
# repeated: what came in between would never be read.


def streams_of(path: Path, **options: str) -> TieredFSStreamReader:
    given = {"path": str(path), "subscribe": "big", **options}
    reader = TieredFSDataSource(given).streamReader(OFFSET)
    assert isinstance(reader, TieredFSStreamReader)
    return reader


def test_a_stream_whose_first_batch_failed_begins_where_it_began(
    tmp_path: Path,
) -> None:
    store = ObjectStore(str(tmp_path))
    fill(store, ten_records(0))
    reader = streams_of(tmp_path, startingOffsets="earliest")
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    fill(store, ten_records(10))
    for options in ({"startingOffsets": "earliest"}, {"startingOffsets": "latest"}):
        again = streams_of(tmp_path, **options)
        planned = again.partitions(again.initialOffset(), end)
        offsets = [o for p in planned for b in again.read(p) for o in b["offset"]]
        assert [offset.as_py() for offset in offsets] == list(range(10))


# 8. Spark calls neither stop() nor the last commit(): whatever they did would not be.


def test_a_stream_that_is_never_stopped_leaves_nothing_and_goes_on_elsewhere(
    tmp_path: Path,
) -> None:
    store = ObjectStore(str(tmp_path / "tier"))
    (tmp_path / "tier").mkdir()
    fill(store, ten_records(0))
    before, threads = sorted(tmp_path.rglob("*")), threading.active_count()
    reader = streams_of(tmp_path / "tier", startingOffsets="earliest", cache_dir="")
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    planned = reader.partitions(reader.initialOffset(), end)
    assert sum(b.num_rows for p in planned for b in reader.read(p)) == 10
    assert sorted(tmp_path.rglob("*")) == before
    del reader, planned
    gc.collect()
    assert threading.active_count() <= threads
    fill(store, ten_records(10))
    other = streams_of(tmp_path / "tier", startingOffsets="latest")
    later = other.latestOffset(end, ReadAllAvailable())
    assert later == {"big": {"0": 20}}
