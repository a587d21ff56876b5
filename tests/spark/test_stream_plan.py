"""Batches of a stream: where they begin and end, what they cost, what may be lost."""

import json
import logging
import pickle
from collections.abc import Sequence
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from typing_extensions import override

from servers import Bucket
from support.distant import distant
from support.segments import records, segment
from support.stores import fill, make_place, open_store
from support.transactions import TransactionalLog, put_tiered
from support.wire import encode_batch
from tieredfs import (
    CorruptDataError,
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    SegmentMetadata,
    Tier,
    TopicIdPartition,
    open_tier,
)
from tieredfs.objects.observer import RequestEvent
from tieredfs.spark import partition_log, stream_plan
from tieredfs.spark.options import parse_stream_options
from tieredfs.spark.partition_log import PartitionLog
from tieredfs.spark.stream_reader import TieredFSStreamReader
from tieredfs.storage import StorageWrapper

TOPIC = "t"
ALL = ReadAllAvailable()
FROM_EARLIEST = {"subscribe": TOPIC, "startingOffsets": "earliest"}


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    return make_place("local", request, tmp_path)


def append(
    place: Bucket,
    start: int,
    size: int = 10,
    topic: str = TOPIC,
    partition: int = 0,
    topic_id: str = "A" * 22,
) -> None:
    batch = encode_batch(records(start, size))
    folder = f"{topic}-{partition}-{topic_id}"
    fill(open_store(place), segment(folder, start, batch))


def delete(place: Bucket, prefix: str) -> None:
    store = open_store(place)
    store.delete([e.key for e in store.list() if e.key.startswith(prefix)])


def stream(place: Bucket, **options: str) -> TieredFSStreamReader:
    given = {"path": place.url, **FROM_EARLIEST, **options}
    return TieredFSStreamReader(
        parse_stream_options(given), ("topic", "partition", "offset")
    )


def next_end(reader: TieredFSStreamReader, start: object) -> dict[str, object]:
    """Ask for the end of a batch, as Spark does: by way of JSON."""
    asked = json.loads(json.dumps(start))
    found: dict[str, object] = json.loads(json.dumps(reader.latestOffset(asked, ALL)))
    return found


def rows(
    reader: TieredFSStreamReader, start: dict[str, object], end: dict[str, object]
) -> list[tuple[str, int, int]]:
    return sorted(
        (row["topic"], row["partition"], row["offset"])
        for part in reader.partitions(start, end)
        for batch in reader.read(part)
        for row in batch.to_pylist()
    )


def test_a_first_batch_that_is_repeated_begins_where_it_did(place: Bucket) -> None:
    append(place, 0)
    latest = {"startingOffsets": "latest"}
    reader = stream(place, **latest)
    end = next_end(reader, reader.initialOffset())
    assert end == {TOPIC: {"0": 10}, "from": {TOPIC: {"0": 10}}}
    append(place, 10)
    again = stream(place, **latest)
    assert rows(again, again.initialOffset(), end) == []
    later = next_end(again, end)
    assert later == {TOPIC: {"0": 20}}
    assert rows(again, end, later) == [(TOPIC, 0, offset) for offset in range(10, 20)]


def test_a_first_batch_of_which_retention_took_a_part_is_a_loss(place: Bucket) -> None:
    append(place, 0)
    append(place, 10)
    reader = stream(place)
    end = next_end(reader, reader.initialOffset())
    assert end == {TOPIC: {"0": 20}}
    delete(place, f"{TOPIC}-0-AAAAAAAAAAAAAAAAAAAAAA/{0:020d}")
    again = stream(place)
    with pytest.raises(CorruptDataError, match="Offsets 0 to 19 of t-0 are to be read"):
        again.partitions(again.initialOffset(), end)


def test_when_nothing_is_new_the_end_is_the_start_as_it_was_logged(
    place: Bucket,
) -> None:
    append(place, 0)
    reader = stream(place, startingOffsets="latest")
    end = next_end(reader, reader.initialOffset())
    assert next_end(reader, end) == end
    kafkas = {TOPIC: {"0": 10}}
    assert next_end(stream(place), kafkas) == kafkas


@pytest.mark.parametrize("prepares", [True, False])
def test_a_tier_that_is_behind_is_refused_before_spark_logs_its_end(
    place: Bucket, *, prepares: bool
) -> None:
    append(place, 0)
    start: dict[str, object] = {TOPIC: {"0": 15}}
    reader = stream(place)
    if prepares:
        reader.prepareForTriggerAvailableNow()
    with pytest.raises(CorruptDataError, match="changed from 15 to 10: either this ti"):
        next_end(reader, start)
    append(place, 10)
    reader = stream(place)
    end = next_end(reader, start)
    assert rows(reader, start, end) == [(TOPIC, 0, n) for n in range(15, 20)]


def test_a_partition_that_expired_goes_on_where_it_was_when_it_has_records_again(
    place: Bucket,
) -> None:
    append(place, 0)
    append(place, 0, partition=1)
    start: dict[str, object] = {TOPIC: {"0": 10, "1": 10}}
    delete(place, f"{TOPIC}-1-")
    reader = stream(place)
    with pytest.raises(CorruptDataError, match="Partitions t-1 have been deleted"):
        next_end(reader, start)
    append(place, 10, partition=1)
    end = next_end(reader, start)
    assert end == {TOPIC: {"0": 10, "1": 20}}
    assert rows(reader, start, end) == [(TOPIC, 1, n) for n in range(10, 20)]


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_partition_without_a_record_that_a_checkpoint_of_kafka_names_is_no_loss(
    place: Bucket, caplog: pytest.LogCaptureFixture, fails: str
) -> None:
    append(place, 0)
    start: dict[str, object] = {TOPIC: {"0": 4, "1": 0}}
    reader = stream(place, failOnDataLoss=fails)
    end = next_end(reader, start)
    assert end == {TOPIC: {"0": 10, "1": 0}}
    assert rows(reader, start, end) == [(TOPIC, 0, n) for n in range(4, 10)]
    assert next_end(reader, end) == end
    append(place, 0, 2, partition=1)
    later = next_end(reader, end)
    assert rows(reader, end, later) == [(TOPIC, 1, 0), (TOPIC, 1, 1)]
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        ({"subscribe": TOPIC}, "other-0, t2-0"),
        ({"subscribePattern": "^t2?$"}, "other-0"),
        ({"assign": '{"t": [0], "t2": [0]}'}, "other-0"),
    ],
    ids=["subscribe", "pattern", "assign"],
)
def test_what_was_read_and_is_left_out_now_is_refused_by_its_name(
    place: Bucket, options: dict[str, str], left_out: str
) -> None:
    start: dict[str, object] = {}
    for topic in ("other", TOPIC, "t2"):
        append(place, 0, topic=topic)
        start[topic] = {"0": 10}
    changed = {"path": place.url, "startingOffsets": "earliest", **options}
    reader = TieredFSStreamReader(parse_stream_options(changed), ("offset",))
    with pytest.raises(InvalidArgumentError, match=f"has read {left_out} before"):
        next_end(reader, start)
    assert next_end(stream(place, subscribe=f"{TOPIC},other,t2"), start) == start


def test_a_query_that_ends_by_itself_reads_nothing_that_came_later(
    place: Bucket,
) -> None:
    append(place, 0)
    reader = stream(place, maxOffsetsPerTrigger="6")
    reader.prepareForTriggerAvailableNow()
    append(place, 10)
    append(place, 0, partition=1)
    limit = reader.getDefaultReadLimit()
    first = reader.latestOffset(reader.initialOffset(), limit)
    second = reader.latestOffset(first, limit)
    assert [first, second] == [{TOPIC: {"0": 6}}, {TOPIC: {"0": 10}}]
    assert reader.latestOffset(second, limit) == second
    assert reader.reportLatestOffset() == {TOPIC: {"0": 10}}


def test_a_partition_that_is_added_begins_at_its_first_record(place: Bucket) -> None:
    append(place, 0)
    reader = stream(place, startingOffsets="latest")
    start = next_end(reader, reader.initialOffset())
    append(place, 0, 3, partition=1)
    end = next_end(reader, start)
    assert end == {TOPIC: {"0": 10, "1": 3}}
    assert rows(reader, start, end) == [(TOPIC, 1, offset) for offset in range(3)]


def test_a_partition_that_is_added_without_its_first_records_is_a_loss(
    place: Bucket,
) -> None:
    append(place, 0)
    append(place, 50, 3, partition=1)
    start, end = {TOPIC: {"0": 10}}, {TOPIC: {"0": 10, "1": 53}}
    with pytest.raises(CorruptDataError, match="Added partition t-1 starts from 50"):
        stream(place).partitions(dict(start), dict(end))
    found = rows(stream(place, failOnDataLoss="false"), dict(start), dict(end))
    assert found == [(TOPIC, 1, offset) for offset in range(50, 53)]


def test_a_topic_that_is_gone_fails_the_query_unless_a_loss_is_accepted(
    place: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    append(place, 0)
    append(place, 0, topic="other")
    both = {"subscribe": f"{TOPIC},other"}
    start = {TOPIC: {"0": 10}, "other": {"0": 4}}
    delete(place, f"{TOPIC}-")
    with pytest.raises(NotFoundError, match="topic 't'"):
        next_end(stream(place, **both), start)
    lenient = stream(place, failOnDataLoss="false", **both)
    end = next_end(lenient, start)
    assert end == {"other": {"0": 10}}
    with caplog.at_level(logging.WARNING, "tieredfs.spark"):
        assert rows(lenient, dict(start), end) == [
            ("other", 0, n) for n in range(4, 10)
        ]
    assert "Partitions t-0 have been deleted" in caplog.text
    append(place, 0, 2)  # created again: it is new
    again = next_end(lenient, end)
    assert rows(lenient, end, again) == [(TOPIC, 0, 0), (TOPIC, 0, 1)]


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("prepares", [True, False])
def test_a_topic_that_was_never_there_is_refused(
    place: Bucket, fails: str, *, prepares: bool
) -> None:
    append(place, 0)
    reader = stream(place, subscribe=f"{TOPIC},tt", failOnDataLoss=fails)
    with pytest.raises(NotFoundError, match="topic 'tt'"):  # noqa: PT012 - either
        if prepares:
            reader.prepareForTriggerAvailableNow()
        next_end(reader, reader.initialOffset())


def test_a_pattern_that_finds_no_topic_yet_finds_those_that_come(
    place: Bucket,
) -> None:
    append(place, 0, topic="other")
    options = {"path": place.url, "subscribePattern": "t$", "startingOffsets": "latest"}
    reader = TieredFSStreamReader(parse_stream_options(options), ("offset",))
    start = next_end(reader, reader.initialOffset())
    assert start == {}
    append(place, 0)
    assert next_end(reader, start) == {TOPIC: {"0": 10}}  # not latest: it is new
    assert len(reader.partitions(start, {TOPIC: {"0": 10}})) == 1


def test_an_offset_below_zero_is_refused_by_the_name_of_the_option(
    place: Bucket,
) -> None:
    append(place, 0)
    reader = stream(place, startingOffsets='{"t":{"0":-3}}')
    with pytest.raises(InvalidArgumentError, match="option 'startingOffsets': -3 is"):
        next_end(reader, reader.initialOffset())


class Verbs:
    """The verbs of all requests."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_request(self, event: RequestEvent) -> None:
        self.seen.append(event.verb)


def observed(
    url: str, monkeypatch: pytest.MonkeyPatch, **options: str
) -> tuple[TieredFSStreamReader, Verbs]:
    verbs = Verbs()
    storage = open_tier(url, plugin="single-object").storage.with_observer(verbs)
    monkeypatch.setattr(stream_plan, "open_source", lambda _: Tier(storage))
    given = {"path": url, **FROM_EARLIEST, **options}
    return TieredFSStreamReader(parse_stream_options(given), ("offset",)), verbs


def native_tier(path: Path, segments: int, partitions: int = 1) -> str:
    tier = open_tier(path, plugin="single-object")
    topic = tier.create_topic(TOPIC, partitions=partitions)
    for number in range(partitions):
        for _ in range(segments):
            topic.append(pa.table({"value": [b"v"] * 2}), number)
    return str(path)


def test_a_batch_is_planned_with_a_listing_of_each_partition_and_no_other_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = native_tier(tmp_path, 2, partitions=3)
    reader, verbs = observed(url, monkeypatch)
    first = reader.initialOffset()
    assert verbs.seen == []
    end = next_end(reader, first)
    assert end == {TOPIC: {"0": 4, "1": 4, "2": 4}}
    assert reader.partitions(first, end)
    assert set(verbs.seen) == {"list"}
    assert next_end(reader, end) == end
    assert set(verbs.seen) == {"list"}


def test_a_batch_that_is_planned_anew_has_the_same_rows(place: Bucket) -> None:
    append(place, 0)
    append(place, 10)
    reader = stream(place, maxOffsetsPerTrigger="7")
    first = reader.initialOffset()
    end = reader.latestOffset(first, reader.getDefaultReadLimit())
    expected = [(TOPIC, 0, offset) for offset in range(7)]
    assert rows(reader, first, end) == expected
    append(place, 20)
    assert rows(reader, first, end) == expected
    copy = pickle.loads(pickle.dumps(stream(place)))  # noqa: S301 - our own
    assert rows(copy, first, end) == expected


def test_a_topic_named_as_what_says_where_a_query_began_is_read(place: Bucket) -> None:
    append(place, 0, topic="from")
    append(place, 10, topic="from")
    reader = stream(place, subscribe="from", startingOffsets='{"from":{"0":15}}')
    first = reader.initialOffset()
    end = next_end(reader, first)
    assert rows(reader, first, end) == [("from", 0, offset) for offset in range(15, 20)]
    append(place, 20)
    append(place, 20, 2, topic="from")
    later = next_end(reader, end)
    assert later == {"from": {"0": 22}}
    assert rows(reader, end, later) == [("from", 0, 20), ("from", 0, 21)]


def test_a_topic_that_stays_away_is_missed_once_where_a_loss_is_accepted(
    place: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    append(place, 0, topic="other")
    lenient = stream(place, subscribe=f"{TOPIC},other", failOnDataLoss="false")
    end: dict[str, object] = {"other": {"0": 4}}
    with caplog.at_level(logging.WARNING, "tieredfs.spark"):
        for _ in range(2):
            end = next_end(lenient, end)
    assert end == {"other": {"0": 10}}
    assert caplog.messages == ["Topic t does not exist, and is not read."]


LOST = {"all": f"{TOPIC}-", "one": f"{TOPIC}-1-"}


@pytest.mark.parametrize("lost", LOST)
def test_what_is_deleted_after_the_target_was_fixed_is_a_loss(
    place: Bucket, lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    append(place, 0)
    append(place, 0, partition=1)
    append(place, 0, topic="other")
    start, middle, end = (
        {TOPIC: {"0": at, "1": at}, "other": {"0": at}} for at in (0, 4, 10)
    )

    def deleted_meanwhile(fails: str) -> TieredFSStreamReader:
        reader = stream(place, subscribe=f"{TOPIC},other", failOnDataLoss=fails)
        reader.prepareForTriggerAvailableNow()
        reader.partitions(dict(start), dict(middle))
        return reader

    strict, lenient = map(deleted_meanwhile, ("true", "false"))
    delete(place, LOST[lost])
    with pytest.raises(CorruptDataError, match=r"Partition t-\d has been deleted"):
        strict.partitions(dict(middle), dict(end))
    with caplog.at_level(logging.WARNING, "tieredfs.spark"):
        found = rows(lenient, dict(middle), dict(end))
    assert found[:6] == [("other", 0, offset) for offset in range(4, 10)]
    assert len(found) == (12 if lost == "one" else 6)
    assert "Partition t-1 has been deleted" in caplog.text


def test_what_is_deleted_while_it_is_planned_is_a_loss(
    place: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(place, 0)
    append(place, 0, partition=1)
    list_log = partition_log.list_log

    def delete_first(*given: Any, **more: Any) -> PartitionLog:  # noqa: ANN401
        delete(place, f"{TOPIC}-1-")
        return list_log(*given, **more)

    monkeypatch.setattr(stream_plan, "list_log", delete_first)
    start, end = {TOPIC: {"0": 0, "1": 0}}, {TOPIC: {"0": 10, "1": 10}}
    lenient = stream(place, failOnDataLoss="false")
    found = rows(lenient, dict(start), dict(end))
    assert found == [(TOPIC, 0, offset) for offset in range(10)]


def test_a_topic_that_is_created_again_is_read_by_its_name(place: Bucket) -> None:
    append(place, 0)
    reader = stream(place)
    reader.prepareForTriggerAvailableNow()
    middle, end = {TOPIC: {"0": 4}}, {TOPIC: {"0": 10}}
    reader.partitions({TOPIC: {"0": 0}}, dict(middle))
    delete(place, f"{TOPIC}-")
    append(place, 0, topic_id="B" * 21 + "A")
    found = rows(reader, dict(middle), dict(end))
    assert found == [(TOPIC, 0, offset) for offset in range(4, 10)]


def test_a_pattern_leaves_out_topics_without_the_id(place: Bucket) -> None:
    append(place, 0)
    append(place, 0, topic="t2", topic_id="B" * 21 + "A")
    options = {"path": place.url, "subscribePattern": "t", "topic_id": "A" * 22}
    reader = TieredFSStreamReader(
        parse_stream_options({**options, "startingOffsets": "earliest"}), ("offset",)
    )
    assert next_end(reader, reader.initialOffset()) == {TOPIC: {"0": 10}}


def test_what_is_in_no_segment_is_said_once_where_a_loss_is_accepted(
    place: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    for start in (10, 40):
        append(place, start)
    lenient = stream(place, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "tieredfs.spark"):
        found = rows(lenient, {TOPIC: {"0": 5}}, {TOPIC: {"0": 60}})
    assert [offset for *_, offset in found] == [*range(10, 20), *range(40, 50)]
    lost = "Some data may have been lost."
    assert caplog.messages == [
        "Offsets 5 to 59 of t-0 are to be read, the log begins at 10 and ends at 50. "
        + lost,
        f"Offsets 20 to 39 of t-0 are in no segment. {lost}",
    ]


def test_an_error_says_where_the_log_ends_and_not_what_was_listed_of_it(
    tmp_path: Path,
) -> None:
    url = native_tier(tmp_path, 4)
    options = parse_stream_options({"path": url, **FROM_EARLIEST})
    reader = TieredFSStreamReader(options, ("offset",))
    end = next_end(reader, {TOPIC: {"0": 6}})
    later = next_end(reader, end)
    assert later == {TOPIC: {"0": 8}}
    with pytest.raises(CorruptDataError, match="to be read, the log ends at 8"):
        reader.partitions(end, {TOPIC: {"0": 20}})


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_batch_that_begins_before_what_was_last_listed_has_the_same_rows(
    tmp_path: Path, fails: str
) -> None:
    url = native_tier(tmp_path, 30)
    reader = TieredFSStreamReader(
        parse_stream_options({"path": url, **FROM_EARLIEST, "failOnDataLoss": fails}),
        ("topic", "partition", "offset"),
    )
    start, end = {TOPIC: {"0": 4}}, {TOPIC: {"0": 40}}
    expected = [(TOPIC, 0, offset) for offset in range(4, 40)]
    for listed_from in (59, 59, 6, 2, 0):
        next_end(reader, {TOPIC: {"0": listed_from}})
        assert rows(reader, dict(start), dict(end)) == expected


def test_a_batch_that_ends_after_what_was_last_listed_has_all_its_rows(
    place: Bucket,
) -> None:
    append(place, 0)
    reader = stream(place)
    start = {TOPIC: {"0": 0}}
    assert next_end(reader, start) == {TOPIC: {"0": 10}}
    append(place, 10)
    append(place, 0, 5, partition=1)
    found = rows(reader, dict(start), {TOPIC: {"0": 20, "1": 5}})
    assert found == [
        *((TOPIC, 0, offset) for offset in range(20)),
        *((TOPIC, 1, offset) for offset in range(5)),
    ]


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_batch_of_committed_records_ends_before_an_open_transaction(
    place: Bucket, fails: str
) -> None:
    log = TransactionalLog([("plain", 0, 5), ("data", 1, 3), ("plain", 0, 2)])
    fill(open_store(place), put_tiered(log))
    committed = {"kafka.isolation.level": "read_committed"}
    reader = stream(place, failOnDataLoss=fails, **committed)
    start, end = {TOPIC: {"0": 0}}, {TOPIC: {"0": log.end}}
    if fails == "true":
        with pytest.raises(CorruptDataError, match="has its last stable offset at 5"):
            reader.partitions(dict(start), dict(end))
    else:
        expected = [(TOPIC, 0, offset) for offset in range(5)]
        assert rows(reader, dict(start), dict(end)) == expected


def test_a_reader_is_pickled_without_what_it_has_listed(place: Bucket) -> None:
    append(place, 0)
    reader = stream(place)
    unused = pickle.dumps(reader)
    reader.prepareForTriggerAvailableNow()
    next_end(reader, reader.initialOffset())
    assert pickle.dumps(reader) == unused


def test_topics_are_listed_concurrently(
    memory: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(Bucket(memory.url, {}), 0)
    append(Bucket(memory.url, {}), 0, topic="t2")
    place = Bucket(distant(memory.url), {})
    inner, meeting = open_tier(place.url).storage, Barrier(2)

    class Meets(StorageWrapper):
        """Lists a partition only while another one is listed."""

        @override
        def list_segments_lazily(
            self, partition: TopicIdPartition
        ) -> Sequence[SegmentMetadata]:
            meeting.wait(timeout=20)
            return self.inner.list_segments_lazily(partition)

    monkeypatch.setattr(stream_plan, "open_source", lambda _: Tier(Meets(inner)))
    reader = stream(place, subscribe=f"{TOPIC},t2")
    first = reader.initialOffset()
    end = next_end(reader, first)
    assert end == {TOPIC: {"0": 10}, "t2": {"0": 10}}
    again = stream(place, subscribe=f"{TOPIC},t2")
    assert again.partitions(first, end)
