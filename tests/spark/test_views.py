"""Views: what a tier is made of, as tables."""

import json
import pickle
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from servers import Bucket
from spark.conftest import Load
from spark.oracle import TIER
from support.kafka_data import KAFKA, REMOTE
from support.segments import records, segment
from support.stores import files_of, fill, make_place, open_store
from support.transactions import TransactionalLog, put_tiered
from support.wire import WireRecord, encode_batch
from tieredfs import RequestEvent, Tier, open_tier
from tieredfs.errors import (
    InvalidArgumentError,
    NotFoundError,
    UnsupportedOperationError,
)
from tieredfs.log.verify.verify import Depth, verify
from tieredfs.spark import views
from tieredfs.spark.options import parse_options
from tieredfs.spark.view_columns import VIEWS
from tieredfs.spark.views import plan_view

FOLDER = "big-0-AAAAAAAAAAAAAAAAAAAAAA"


def rows_of(view: str, path: str = str(TIER), **given: str) -> list[dict[str, Any]]:
    options = parse_options({"path": path, "view": view, **given})
    tasks = pickle.loads(pickle.dumps(plan_view(view, options)))  # noqa: S301 - our own
    names = tuple(VIEWS[view])
    return [row for task in tasks for b in task.read(names) for row in b.to_pylist()]


def test_each_view_is_an_option_and_has_rows() -> None:
    for view in VIEWS:
        assert parse_options({"path": "x", "view": view.upper()}).view == view
        assert rows_of(view, subscribe="o2")


def test_segments_are_those_of_the_tier_with_their_bounds_and_sizes() -> None:
    found = rows_of("segments", subscribe="o1")
    stem = {row["start_offset"]: row for row in found if row["partition"] == 0}
    assert list(stem) == [0, 600, 1200, 1800, 2400, 2960]
    assert [row["end_offset"] for row in stem.values()][-2:] == [2960, 3000]
    assert {row["topic"] for row in found} == {"o1"}
    for row in found:
        folder = f"o1-{row['partition']}-{row['topic_id']}"
        log = TIER / folder / f"{row['start_offset']:020d}-{row['id']}.log"
        assert row["bytes"] == log.stat().st_size < row["stored_bytes"]
    last = open_tier(str(TIER)).topic("o1").scan([0], start=2960).to_table()
    assert stem[2960]["max_timestamp"] == max(last["timestamp"].to_pylist())


def test_offsets_are_the_bounds_of_every_partition_without_reading_a_record() -> None:
    said = json.loads((TIER.parent / "oracle.json").read_text())
    expected = {
        (topic, int(number)): tuple(bounds)
        for topic, by_number in said["partitions_earliest_latest"].items()
        for number, bounds in by_number.items()
        if bounds != [0, 0] and topic != "o7"  # it keeps what the broker had deleted
    }
    found = {
        (row["topic"], row["partition"]): (row["start_offset"], row["end_offset"])
        for row in rows_of("offsets")
        if row["topic"] != "o7"
    }
    assert found == expected


def test_the_stable_offset_is_that_to_which_committed_records_are_read() -> None:
    for row in rows_of("offsets", str(KAFKA / "txn" / REMOTE)):
        topic = open_tier(str(KAFKA / "txn" / REMOTE)).topic(row["topic"])
        reader = topic.reader(row["partition"])
        stable = max(row["start_offset"], reader.stable_offset())
        assert row["stable_offset"] == stable


def test_transactions_are_those_whose_records_a_committed_read_leaves_out() -> None:
    aborted = [
        range(row["first_offset"], row["last_offset"])
        for row in rows_of("transactions", subscribe="o2")
        if row["state"] == "aborted"
    ]
    topic = open_tier(str(TIER)).topic("o2")
    every = set(topic.scan().to_table()["offset"].to_pylist())
    committed = topic.scan(isolation="read_committed").to_table()["offset"].to_pylist()
    left_out = every - set(committed)
    assert left_out
    assert left_out <= {offset for one in aborted for offset in one}


def test_a_topic_without_transactions_has_no_row() -> None:
    assert rows_of("transactions", subscribe="o1") == []


def test_a_transaction_that_another_leader_has_replaced_has_no_row(
    place: Bucket,
) -> None:
    log = encode_batch(records(0, 10), leader_epoch=0)
    lost = segment(FOLDER, 0, log, name="lost")
    stem = next(iter(lost)).removesuffix(".log")
    lost[f"{stem}.txnindex"] = struct.pack(">hqqqq", 0, 77, 6, 8, 9)
    log, epochs = encode_batch(records(5, 10), leader_epoch=1), ((0, 0), (1, 5))
    fill(open_store(place), lost)
    assert len(rows_of("transactions", place.url)) == 1
    fill(open_store(place), segment(FOLDER, 5, log, epochs=epochs))
    assert rows_of("transactions", place.url) == []


def test_a_transaction_that_is_open_where_the_log_ends_has_no_last_offset(
    place: Bucket,
) -> None:
    aborted, opened = 1, 2
    log = TransactionalLog(
        [
            ("data", aborted, 4),
            ("abort", aborted, 0),
            ("plain", 0, 5),
            ("data", opened, 3),
            ("plain", 0, 2),
        ]
    )
    fill(open_store(place), put_tiered(log))
    found = [
        (row["producer_id"], row["first_offset"], row["last_offset"], row["state"])
        for row in rows_of("transactions", place.url)
    ]
    assert found == [(aborted, 0, 4, "aborted"), (opened, 10, None, "open")]


def test_verify_has_a_row_without_an_error_for_each_whole_segment() -> None:
    found = rows_of("verify", subscribe="o1,o2")
    assert len(found) == 6 + 2 + 9
    assert {row["error"] for row in found} == {None}


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    return make_place("local", request, tmp_path)


def test_verify_names_each_damaged_segment_and_goes_on_behind_it(
    place: Bucket,
) -> None:
    files = {k: v for k, v in files_of(TIER).items() if k.startswith("o1-0")}
    (bad,) = (key for key in files if f"/{600:020d}-" in key and key.endswith(".log"))
    log = bytearray(files[bad])
    log[len(log) // 2] ^= 1
    fill(open_store(place), files | {bad: bytes(log)})
    found = rows_of("verify", place.url)
    wrong = [row for row in found if row["error"] is not None]
    assert [row["start_offset"] for row in wrong] == [600]
    assert bad.removesuffix(".log") in wrong[0]["detail"]
    assert len(found) == 6


@pytest.mark.parametrize("suffix", ["index", "timeindex", "snapshot", "log"])
def test_verify_names_each_damage_once_as_verifying_the_tier_does(
    suffix: str, place: Bucket
) -> None:
    # Their listing says nothing of ends: each segment is described by history, too.
    folder = KAFKA / "leader-changes" / REMOTE
    files = {key: bytes(data) for key, data in files_of(folder).items()}
    for bad in sorted(key for key in files if key.endswith(f".{suffix}"))[-2:]:
        files[bad] = files[bad][: len(files[bad]) // 2 + 1]
    fill(open_store(place), files)
    storage = open_tier(place.url).storage
    reports = verify(storage, storage.list_partitions(), Depth.EVERYTHING)
    expected = [
        (problem.kind.value, problem.detail)
        for report in reports
        for problem in report.problems
    ]
    found = [
        (row["error"], row["detail"])
        for row in rows_of("verify", place.url)
        if row["error"] is not None
    ]
    assert sorted(found) == sorted(expected) != []


def test_verify_names_segments_that_have_other_records_at_the_same_offsets(
    place: Bucket,
) -> None:
    store = open_store(place)
    for value in ("one", "other"):
        log = encode_batch(records(0, 10, value=value))
        fill(store, segment(FOLDER, 0, log, name=value))
    (wrong,) = [row for row in rows_of("verify", place.url) if row["error"]]
    assert "have other records at the same offsets" in wrong["detail"]


@pytest.mark.parametrize("view", ["segments", "offsets", "verify"])
def test_of_several_topics_of_a_name_a_view_has_all_or_the_one_that_is_chosen(
    view: str, place: Bucket
) -> None:
    names = [f"big-0-{'A' * 21}A", f"big-0-{'B' * 21}A", f"other-0-{'C' * 21}A"]
    for folder in names:
        fill(open_store(place), segment(folder, 0, encode_batch(records(0, 3))))
    for given, expected in (
        ({}, names),
        ({"subscribe": "big"}, names[:2]),
        ({"subscribePattern": "^b"}, names[:2]),
        ({"topic_id": "A" * 22}, names[:1]),
        ({"subscribe": "big", "topic_id": f"{'B' * 21}A"}, names[1:2]),
        ({"assign": '{"big": [0]}', "topic_id": "A" * 22}, names[:1]),
    ):
        found = [
            f"{row['topic']}-{row['partition']}-{row['topic_id']}"
            for row in rows_of(view, place.url, **given)
        ]
        assert sorted(found) == expected
    with pytest.raises(NotFoundError, match="D" * 22):
        rows_of(view, place.url, subscribe="big", topic_id="D" * 22)


def test_a_damaged_topic_does_not_keep_another_of_its_name_from_being_verified(
    place: Bucket,
) -> None:
    log = encode_batch(records(0, 3))
    for letter, content in (("A", log[:-1] + b"!"), ("B", log)):
        fill(open_store(place), segment(f"big-0-{letter * 21}A", 0, content))
    found = {row["topic_id"][0]: row["error"] for row in rows_of("verify", place.url)}
    assert found == {"A": "corrupt_batch", "B": None}


def test_a_largest_timestamp_that_spark_cannot_hold_is_named_and_can_be_left_out(
    place: Bucket,
) -> None:
    log = encode_batch([WireRecord(0, 1 << 62)])
    fill(open_store(place), segment(FOLDER, 0, log))
    with pytest.raises(UnsupportedOperationError, match="hold a max_timestamp"):
        rows_of("segments", place.url)
    (task,) = plan_view(
        "segments", parse_options({"path": place.url, "view": "segments"})
    )
    (batch,) = task.read(("bytes",))
    assert batch.to_pylist() == [{"bytes": len(log)}]


def test_columns_of_a_view_that_are_left_out_are_not_looked_up(
    monkeypatch: pytest.MonkeyPatch, place: Bucket
) -> None:
    fill(open_store(place), files_of(TIER))
    verbs: list[str] = []

    class Watch:
        def on_request(self, event: RequestEvent) -> None:
            verbs.append(event.verb)

    storage = open_tier(place.url).storage.with_observer(Watch())
    monkeypatch.setattr(views, "open_source", lambda _: Tier(storage))
    options = parse_options({"path": place.url, "view": "segments", "subscribe": "o1"})
    taken = []
    for columns in (tuple(VIEWS["segments"]), ("topic", "bytes")):
        verbs.clear()
        for task in plan_view("segments", options):
            assert sum(batch.num_rows for batch in task.read(columns)) == 8
        taken.append(len(verbs))
    assert taken[1] < taken[0]


def test_verify_says_which_offsets_are_in_no_segment(place: Bucket) -> None:
    for start in (0, 20):
        fill(
            open_store(place), segment(FOLDER, start, encode_batch(records(start, 10)))
        )
    gaps = [row for row in rows_of("verify", place.url) if row["id"] is None]
    assert len(gaps) == 1
    assert "10" in gaps[0]["detail"]
    assert gaps[0]["error"] == "corrupt_data"


def test_views_are_of_the_partitions_that_are_asked_for() -> None:
    asked = {"assign": '{"o1": [1], "o4": [0, 9]}'}
    found = {(row["topic"], row["partition"]) for row in rows_of("segments", **asked)}
    assert found == {("o1", 1), ("o4", 0)}
    found = {(r["topic"], 0) for r in rows_of("offsets", subscribePattern="o3x")}
    assert found == {("o3xalpha", 0)}
    with pytest.raises(NotFoundError, match="nosuch"):
        rows_of("offsets", subscribe="nosuch")


@pytest.mark.parametrize(
    "given",
    [
        {"view": "nosuch"},
        {"view": ""},
        {"view": "segments", "startingOffsets": "earliest"},
        {"view": "segments", "columns": "offset"},
        {"view": "segments", "minPartitions": "3"},
        {"view": "offsets", "failOnDataLoss": "false"},
        {"view": "transactions", "KAFKA.isolation.level": "read_committed"},
    ],
    ids=str,
)
def test_what_a_view_cannot_be_is_refused_by_name(given: Mapping[str, str]) -> None:
    name = list(given)[-1]
    with pytest.raises(InvalidArgumentError, match=f"(?i)'{name}'"):
        parse_options({"path": "x", **given})


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_a_table_in_spark(view: str, load: Load) -> None:
    frame = load({"view": view, "subscribe": "o2"})
    assert frame.columns == list(VIEWS[view])
    expected = pa.Table.from_pylist(rows_of(view, subscribe="o2"))
    got = frame.toArrow()
    names = ["partition", *frame.columns[3:4]]
    order = [(name, "ascending") for name in names]
    assert got.num_rows == expected.num_rows > 0
    assert got.sort_by(order).select(names) == expected.sort_by(order).select(
        names
    ).cast(got.select(names).schema)


def test_a_view_takes_a_schema_that_chooses_its_columns(load: Load) -> None:
    frame = load({"view": "segments"}, schema="bytes bigint, topic string")
    assert frame.columns == ["bytes", "topic"]
    assert frame.count() == len(rows_of("segments"))
