"""Credentials are in nothing that Spark shows, logs or keeps of a query."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit, regexp_replace

from servers import Bucket
from spark.questions import (
    PUSH_DOWN,
    Query,
    answer_of,
    await_events,
    configured,
    error_of,
    explanations_of,
    rows_of,
    sql_count_of,
    worker_logs,
)
from spark.sessions import ApartSession
from support.segments import segment
from support.stores import fill, make_place, open_store
from support.wire import WireRecord, encode_batch
from tieredfs.spark import TieredFSDataSource, register
from tieredfs.spark.options import parse_options
from tieredfs.spark.record_reader import FilteringReader, TieredFSReader
from tieredfs.spark.redaction import REDACTION
from tieredfs.spark.view_reader import ViewReader


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.xdist_group(name))
        for name in ("local-cluster", "connect")
    ]
)
def apart(request: pytest.FixtureRequest) -> ApartSession:
    found: ApartSession = request.getfixturevalue(request.param.replace("-", "_"))
    return found


@pytest.fixture
def broken(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    """A topic that fails in a task."""
    place = make_place("s3", request, tmp_path)
    log = encode_batch([WireRecord(0, 1 << 62)])
    fill(open_store(place), segment("big-0-AAAAAAAAAAAAAAAAAAAAAA", 0, log))
    return place


def with_secret(place: Bucket, secret: str) -> Bucket:
    return place._replace(storage_options=place.storage_options | {"secret": secret})


def test_no_secret_is_in_what_spark_shows_logs_or_keeps(
    apart: ApartSession, tier_in_s3: Bucket, broken: Bucket
) -> None:
    read = Query.of(tier_in_s3, subscribe="o3.beta")
    pushing = Query.of(tier_in_s3, subscribe="o3.beta", push_filters="true")
    few = pushing.where("partition = 0 and offset < 9", **{PUSH_DOWN: "true"})
    denied = Query.of(with_secret(tier_in_s3, "a-wrong-one"), subscribe="o3.beta")
    assert apart.ask(answer_of, read).rows == 120
    assert apart.ask(answer_of, few).rows == 9
    assert apart.ask(rows_of, Query.of(tier_in_s3, view="segments"))
    errors = [
        apart.ask(error_of, denied),
        apart.ask(error_of, Query.of(broken, subscribe="big")),
    ]
    assert "PermissionDeniedError" in errors[0]
    assert "UnsupportedOperationError" in errors[1]
    shown = [*errors, *apart.ask(explanations_of, read)]
    shown += [*apart.ask(explanations_of, few), *apart.ask(worker_logs, "logged here")]
    apart.ask(await_events)
    shown += [apart.output, apart.events]
    text = "\n".join(shown)
    for part in ("BatchScan tieredfs", "logged here", "SparkListenerSQLExecutionStart"):
        assert part in text
    options = tier_in_s3.storage_options
    for secret in (options["secret"], options["key"], "a-wrong-one"):
        assert text.count(secret) == 0


@pytest.mark.xdist_group("connect")
def test_no_secret_is_in_what_spark_keeps_of_sql_that_comes_by_connect(
    connect: ApartSession, tier_in_s3: Bucket
) -> None:
    assert connect.ask(sql_count_of, Query.of(tier_in_s3, subscribe="o3.beta")) == 120
    connect.ask(await_events)
    assert "temporary view t using tieredfs" in connect.events
    for text in (connect.events, connect.output):
        assert text.count(tier_in_s3.storage_options["secret"]) == 0


def test_credentials_are_redacted_unless_the_session_says_what_is(
    spark: SparkSession,
) -> None:
    spark.conf.unset(REDACTION)
    register(spark)
    own = spark.conf.get(REDACTION)
    with configured(spark, {REDACTION: "mine"}):
        register(spark)
        assert spark.conf.get(REDACTION) == "mine"
    replaced = regexp_replace("text", lit(own), lit("*"))
    for text, shown in [
        ("""key: "Storage_Options"\n value: "{\\"secret\\": 1}"\n""", """key: "*"""),
        ("options (path 'a', plugin_options '{}')", "options (path 'a', *"),
        ("sftp://me:word@host/tier", "sftp://*@host/tier"),
        ("abfss://container@account/tier", "abfss://container@account/tier"),
        ("select * from t", "select * from t"),
    ]:
        frame = spark.createDataFrame([(text,)], "text string")
        assert frame.select(replaced).first() == (shown,)


@pytest.mark.parametrize("view", ["", "segments", "verify"])
def test_no_reader_and_no_partition_shows_a_secret(
    view: str, tier_in_s3: Bucket
) -> None:
    secret = tier_in_s3.storage_options["secret"]
    given = {
        "path": tier_in_s3.url,
        "storage_options": json.dumps(tier_in_s3.storage_options),
        **({"view": view} if view else {"subscribe": "o3.beta"}),
    }
    options = parse_options(given)
    readers = (
        [ViewReader(view, options, ("partition",))]
        if view
        else [kind(options, ("offset",)) for kind in (TieredFSReader, FilteringReader)]
    )
    partitions = [one for reader in readers for one in reader.partitions()]
    assert partitions
    for shown in (TieredFSDataSource(given), options, *readers, *partitions):
        assert secret not in f"{shown!r}{shown}"
