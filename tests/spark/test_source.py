"""``format("tieredfs")`` in a real Spark session."""

import json
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from servers import Bucket
from spark.conftest import Load
from spark.oracle import TIER, Answer
from support.kafka_data import KAFKA, REMOTE
from support.segments import records, segment
from support.stores import files_of, fill, make_place, open_store
from support.wire import WireRecord, encode_batch

TOPIC = "o3.beta"
ALL = {"subscribe": TOPIC, "includeHeaders": "true"}


def in_s3(bucket: Bucket) -> dict[str, str]:
    return {"storage_options": json.dumps(bucket.storage_options)}


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return {k: v for k, v in files_of(TIER).items() if k.startswith(f"{TOPIC}-")}


def test_rows_are_the_same_from_s3_by_changing_only_the_url(
    load: Load, s3_bucket: Bucket, files: dict[str, bytes]
) -> None:
    fill(open_store(s3_bucket), files)
    expected = Answer.of(load(ALL))
    assert expected.rows == 120
    assert Answer.of(load(ALL | in_s3(s3_bucket), s3_bucket.url)) == expected


def test_rows_are_the_same_from_a_file_url_and_the_path_option(load: Load) -> None:
    expected = Answer.of(load(ALL))
    assert Answer.of(load(ALL, TIER.as_uri())) == expected
    assert Answer.of(load(ALL, f"kafka-local+{TIER.as_uri()}")) == expected


def test_control_records_are_left_out(load: Load) -> None:
    said = json.loads((KAFKA / "txn" / "consumer.json").read_text())
    count = said["read_uncommitted"]["0"]["count"]
    assert load({"subscribe": "txn"}, str(KAFKA / "txn" / REMOTE)).count() == count


def test_a_users_schema_chooses_the_columns(load: Load) -> None:
    frame = load({"subscribe": TOPIC}, schema="offset bigint, partition int")
    assert frame.columns == ["offset", "partition"]
    assert sorted(frame.collect()) == [(offset, 0) for offset in range(120)]


@pytest.mark.parametrize(
    "options", [{"subscribe": TOPIC}, {"view": "segments"}], ids=str
)
def test_timestamps_are_the_same_when_a_setting_gives_the_word_another_type(
    load: Load, spark: SparkSession, options: dict[str, str]
) -> None:
    expected = load(options)
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        found = load(options)
        assert found.schema == expected.schema
        assert found.count() == expected.count() > 0
    finally:
        spark.conf.unset("spark.sql.timestampType")


@pytest.mark.parametrize("url", ["memory://tier", "single-object+memory://tier"])
@pytest.mark.parametrize("schema", ["", "offset bigint"])
def test_a_tier_in_the_memory_of_a_process_is_refused_with_the_reason(
    load: Load, url: str, schema: str
) -> None:
    with pytest.raises(AnalysisException, match="in the memory of the process"):
        load({"subscribe": TOPIC}, url, schema=schema).count()


def test_a_users_schema_without_a_column_is_refused_and_not_empty(load: Load) -> None:
    frame = load({"subscribe": TOPIC}, schema=StructType([]))
    with pytest.raises(AnalysisException, match="the schema has no column"):
        frame.count()


def test_a_table_of_the_catalog_says_what_to_use_instead(
    load: Load, spark: SparkSession
) -> None:
    assert load({"subscribe": TOPIC}).count() == 120  # it is registered
    options = f"options (path '{TIER}', subscribe '{TOPIC}')"
    spark.sql(f"create table catalogued using tieredfs {options}")
    try:
        with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW"):
            spark.table("catalogued").count()
    finally:
        spark.sql("drop table catalogued")
    spark.sql(f"create temporary view viewed using tieredfs {options}")
    assert spark.table("viewed").count() == 120


def test_a_users_schema_with_another_type_is_refused_before_a_task_runs(
    load: Load,
) -> None:
    frame = load({"subscribe": TOPIC}, schema="offset string")
    with pytest.raises(AnalysisException, match="the schema has offset string"):
        frame.collect()


def test_an_error_in_a_task_keeps_its_type_and_its_words(
    load: Load, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = make_place("local", request, tmp_path)
    log = encode_batch([WireRecord(0, 5), WireRecord(1, 1 << 62)])
    fill(open_store(place), segment("big-3-AAAAAAAAAAAAAAAAAAAAAA", 0, log))
    with pytest.raises(PythonException) as raised:
        load({"subscribe": "big"}, place.url).collect()
    said = "UnsupportedOperationError: topic big partition 3 offset 1: Spark cannot"
    assert said in str(raised.value)


def test_a_damaged_segment_fails_the_query_and_is_named(
    load: Load, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = make_place("local", request, tmp_path)
    first = encode_batch(records(0, 3))
    log = first[:-1] + b"!" + encode_batch(records(3, 3))
    fill(open_store(place), segment("big-0-AAAAAAAAAAAAAAAAAAAAAA", 0, log))
    with pytest.raises((PythonException, AnalysisException)) as raised:
        load({"subscribe": "big"}, place.url).collect()
    assert "CorruptBatchError" in str(raised.value)
    assert f"big-0-AAAAAAAAAAAAAAAAAAAAAA/{0:020d}-" in str(raised.value)


def test_a_frame_can_be_counted_again_when_retention_has_deleted_a_segment(
    load: Load, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store = open_store(place := make_place("local", request, tmp_path))
    for start in range(0, 40, 10):
        log = encode_batch(records(start, 10))
        fill(store, segment("big-0-AAAAAAAAAAAAAAAAAAAAAA", start, log))
    frame = load({"subscribe": "big", "failOnDataLoss": "false"}, place.url)
    assert frame.count() == 40
    store.delete([e.key for e in store.list() if f"/{0:020d}-" in e.key])
    assert frame.count() == 30


def test_columns_are_chosen_by_an_option_and_a_schema_must_agree_with_it(
    load: Load,
) -> None:
    options = {"subscribe": TOPIC, "columns": "offset, Partition"}
    frame = load(options)
    assert frame.columns == ["offset", "partition"]
    assert sorted(frame.collect()) == [(offset, 0) for offset in range(120)]
    other = load(options, schema="partition int, offset bigint")
    with pytest.raises(AnalysisException, match="option 'columns': the query's schema"):
        other.collect()


def test_no_message_shows_a_secret(load: Load, s3_bucket: Bucket) -> None:
    fill(open_store(s3_bucket), {"a-0-AAAAAAAAAAAAAAAAAAAAAA/x": b""})
    options = s3_bucket.storage_options | {"secret": "wrong-secret-0123456789"}
    frame = load(ALL | {"storage_options": json.dumps(options)}, s3_bucket.url)
    with pytest.raises(AnalysisException) as raised:
        frame.collect()
    assert "PermissionDeniedError" in str(raised.value)
    assert "wrong-secret-0123456789" not in str(raised.value)


def test_indexes_are_kept_where_the_option_says(
    load: Load, s3_bucket: Bucket, files: dict[str, bytes], tmp_path: Path
) -> None:
    fill(open_store(s3_bucket), files)
    kept = tmp_path / "kept"
    middle = {"startingOffsets": json.dumps({TOPIC: {"0": 45}})}
    expected = Answer.of(load(ALL | middle))
    options = ALL | in_s3(s3_bucket) | middle
    assert Answer.of(load(options | {"cache_dir": ""}, s3_bucket.url)) == expected
    assert not kept.exists()
    for _ in range(2):
        found = Answer.of(load(options | {"cache_dir": str(kept)}, s3_bucket.url))
        assert found == expected
    assert list(kept.glob("*.indexes"))
