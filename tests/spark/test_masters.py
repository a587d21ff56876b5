"""Rows and errors are the same on every master, from a folder and from a bucket."""

from pathlib import Path

import pytest

from servers import Bucket
from spark.oracle import Answer, Case, oracle_cases
from spark.questions import (
    PUSH_DOWN,
    Query,
    answer_of,
    count_executors,
    error_of,
    rows_of,
    stream_of,
)
from spark.sessions import ApartSession, Session
from support.segments import segment
from support.stores import fill, make_place, open_store
from support.wire import WireRecord, encode_batch
from tieredfs.spark.options import parse_options
from tieredfs.spark.view_columns import VIEWS
from tieredfs.spark.views import plan_view

CASES = {case.name: case for case in oracle_cases()}
READ = [
    "assign-two-of-three",
    "startingTimestamp-between-records",
    "isolation-read-committed-headers",
    "minPartitions-5",
]
STREAM = CASES["stream-max-71-two-topics"]
FILTERED = CASES["filter-on-partition-and-offset"]


@pytest.mark.parametrize("case", [CASES[name] for name in READ], ids=str)
def test_rows_are_those_of_kafkas_source(
    case: Case, tier: Bucket, session: Session
) -> None:
    query = Query.of(tier, **case.options)
    assert session.ask(answer_of, query) == Answer.expected(case)


@pytest.mark.parametrize("pushed", ["true", "false"])
def test_a_filter_leaves_the_same_rows_whether_it_is_pushed_down_or_not(
    pushed: str, tier: Bucket, session: Session
) -> None:
    query = Query.of(tier, **FILTERED.options, push_filters="true")
    query = query.where(FILTERED.condition, **{PUSH_DOWN: pushed})
    assert session.ask(answer_of, query) == Answer.expected(FILTERED)


def test_a_stream_has_the_rows_of_kafkas_source_and_shows_no_secret(
    tier: Bucket, session: Session, tmp_path: Path
) -> None:
    query = Query.of(tier, **STREAM.options)
    answer, said = session.ask(stream_of, query, str(tmp_path))
    assert answer == Answer.recorded(STREAM.expect[0])
    assert '"endOffset"' in said
    kept = b"".join(file.read_bytes() for file in tmp_path.glob("checkpoint/**/*.*"))
    kept += b"".join(file.read_bytes() for file in tmp_path.glob("checkpoint/*/[0-9]*"))
    assert b'"o3.alpha"' in kept
    for name in ("key", "secret"):
        secret = tier.storage_options.get(name)
        assert secret is None or secret not in said
        assert secret is None or str(secret).encode() not in kept


def test_a_view_has_the_rows_that_the_tier_is_made_of(
    tier: Bucket, session: Session
) -> None:
    query = Query.of(tier, view="offsets")
    options = parse_options({"path": tier.url, **query.options})
    expected = [
        row
        for task in plan_view("offsets", options)
        for batch in task.read(tuple(VIEWS["offsets"]))
        for row in batch.to_pylist()
    ]
    rows = session.ask(rows_of, query)
    assert len(rows) == len(expected) > 5
    assert all(row in expected for row in rows)


def test_a_plan_that_fails_says_why(tier: Bucket, session: Session) -> None:
    said = session.ask(error_of, Query.of(tier, subscribe="nosuch"))
    assert "tieredfs.errors.NotFoundError: " in said
    assert "nosuch" in said


def test_a_task_that_fails_names_the_record(
    place_kind: str, session: Session, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = make_place(place_kind, request, tmp_path)
    log = encode_batch([WireRecord(0, 5), WireRecord(1, 1 << 62)])
    fill(open_store(place), segment("big-3-AAAAAAAAAAAAAAAAAAAAAA", 0, log))
    said = session.ask(error_of, Query.of(place, subscribe="big"))
    assert "UnsupportedOperationError: topic big partition 3 offset 1: " in said


@pytest.mark.xdist_group("local-cluster")
def test_the_executors_of_a_local_cluster_are_processes_of_their_own(
    local_cluster: ApartSession,
) -> None:
    assert local_cluster.ask(count_executors) == 2
