"""What a broker tiered is read as Kafka's consumer read it, from any URL."""

import json
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from servers import Bucket
from support.kafka_data import KAFKA, LOCAL, REMOTE, digest, load_json, runs
from support.stores import files_of, fill, open_store
from tieredfs import OffsetAndTimestamp, Topic, open_tier

TIERED = ["plain", "txn", "two-partitions", "epochs"]
LAYOUTS = [
    *((name, REMOTE) for name in TIERED),
    ("epochs", LOCAL),
    ("compacted", LOCAL),
]


def consumed(name: str) -> dict[int, Any]:
    told = load_json(name, "consumer.json")["read_uncommitted"]
    return {int(partition): facts for partition, facts in told.items()}


def check(topic: Topic) -> None:
    """Compare everything that can be read of a topic with what the broker said."""
    told = consumed(topic.name)
    assert topic.partitions == tuple(told)
    assert topic.beginning_offsets() == {
        p: t["beginningOffset"] for p, t in told.items()
    }
    assert topic.end_offsets() == {p: t["endOffset"] for p, t in told.items()}
    for partition, facts in told.items():
        table = topic.scan([partition]).to_table()
        assert table.num_rows == facts["count"]
        assert runs(table["offset"].to_pylist()) == facts["offsets"]
        assert digest(table) == facts["digest"]
        assert set(table["partition"].to_pylist()) == {partition}
        assert set(table["topic"].to_pylist()) == {topic.name}


def answers(name: str) -> list[tuple[int, int, OffsetAndTimestamp | None]]:
    """Return what the broker answered: partition, time, record."""
    return [
        (
            query["partition"],
            query["timestamp"],
            None
            if query.get("offset") is None
            else OffsetAndTimestamp(
                query["offset"], query["recordTimestamp"], query["leaderEpoch"]
            ),
        )
        for query in load_json(name, "offsets_for_times.json")["offsetsForTimes"]
    ]


@pytest.mark.parametrize(("name", "sub"), LAYOUTS, ids="-".join)
def test_records_are_those_that_the_consumer_got(name: str, sub: str) -> None:
    tier = open_tier(str(KAFKA / name / sub))
    assert tier.topics() == [name]
    check(tier.topic(name))


@pytest.mark.parametrize(("name", "sub"), LAYOUTS, ids="-".join)
def test_times_are_answered_as_the_broker_did(name: str, sub: str) -> None:
    topic = open_tier(str(KAFKA / name / sub)).topic(name)
    asked = answers(name)
    assert asked
    wrong = [
        (partition, time, told, found)
        for partition, time, told in asked
        if (found := topic.offsets_for_times({partition: time})[partition]) != told
    ]
    assert wrong == []


@pytest.mark.parametrize("name", ["txn", "two-partitions"])
def test_only_the_url_says_where_it_lies(place: Bucket, name: str) -> None:
    fill(open_store(place), files_of(KAFKA / name / REMOTE))
    tier = open_tier(place.url, storage_options=place.storage_options)
    check(tier.topic(name))
    local = open_tier(str(KAFKA / name / REMOTE)).topic(name)
    assert tier.topic(name).scan().to_table() == local.scan().to_table()
    for partition, time, told in answers(name)[::5]:
        found = tier.topic(name).offsets_for_times({partition: time})
        assert found == {partition: told}


def test_a_log_directory_is_read_from_any_url(place: Bucket) -> None:
    fill(open_store(place), files_of(KAFKA / "epochs" / LOCAL))
    tier = open_tier(f"kafka-log+{place.url}", storage_options=place.storage_options)
    check(tier.topic("epochs"))


def test_both_layouts_of_a_partition_give_the_same_records() -> None:
    tables = [
        open_tier(str(KAFKA / "epochs" / sub)).topic("epochs").scan().to_table()
        for sub in (REMOTE, LOCAL)
    ]
    assert tables[0] == tables[1]


@pytest.mark.parametrize("name", ["plain", "txn", "two-partitions"])
def test_every_column_has_its_own_type(name: str) -> None:
    table = open_tier(str(KAFKA / name / REMOTE)).topic(name).scan().to_table()
    assert {field.name: str(field.type) for field in table.schema} == {
        "key": "binary",
        "value": "binary",
        "topic": "string",
        "partition": "int32",
        "offset": "int64",
        "timestamp": "timestamp[ms, tz=UTC]",
        "timestampType": "int32",
        "headers": "list<element: struct<key: string, value: binary>>",
    }
    table.validate(full=True)


def test_log_append_time_is_told() -> None:
    path = str(KAFKA / "logappend" / REMOTE)
    table = (
        open_tier(path).topic("logappend").scan(columns=["timestampType"]).to_table()
    )
    assert set(table["timestampType"].to_pylist()) == {1}


@pytest.mark.parametrize("name", ["codecs-java", "codecs-rdkafka", "logappend"])
def test_one_segment_of_a_log_is_a_log(name: str) -> None:
    topic = open_tier(str(KAFKA / name / REMOTE)).topic(name)
    offsets = topic.scan().to_table()["offset"].to_pylist()
    assert offsets == list(range(topic.beginning_offsets()[0], topic.end_offsets()[0]))


class TestLeaderChanges:
    """Three segments of a log with changes of leader; two of them overlap."""

    FIRST, END = 4291, 4704

    @pytest.fixture
    def topic(self) -> Topic:
        path = KAFKA / "leader-changes" / REMOTE
        return open_tier(str(path)).topic("leader-changes")

    def test_segments_do_overlap(self, topic: Topic) -> None:
        reader = topic.reader(0)
        spans = [(s.start_offset, s.end_offset) for s in reader.segments()]
        assert spans == sorted(spans)
        assert any(
            end is not None and end >= start for (_, end), (start, _) in pairwise(spans)
        )

    def test_each_offset_is_served_exactly_once(self, topic: Topic) -> None:
        assert topic.beginning_offsets() == {0: self.FIRST}
        assert topic.end_offsets() == {0: self.END}
        table = topic.scan().to_table()
        assert table["offset"].to_pylist() == list(range(self.FIRST, self.END))

    def test_from_any_offset_to_any_other(self, topic: Topic) -> None:
        whole = topic.scan().to_table()
        for start in range(self.FIRST, self.END, 23):
            for end in (start + 1, start + 40, self.END):
                part = topic.scan(start=start, end=end).to_table()
                assert part == whole.slice(start - self.FIRST, end - start)

    def test_records_are_those_that_kafka_reads(self, topic: Topic) -> None:
        found = topic.scan(columns=["offset", "timestamp"]).to_table()
        stamps = found["timestamp"].cast(pa.int64()).to_pylist()
        mine = dict(zip(found["offset"].to_pylist(), stamps, strict=True))
        folder = KAFKA / "leader-changes" / "expected" / REMOTE
        compared = 0
        for path in folder.rglob("*.log.expected.jsonl"):
            for line in path.read_text().splitlines():
                record = json.loads(line)
                if not record.get("control"):
                    compared += 1
                    assert mine[record["offset"]] == record["timestamp"]
        assert compared

    def test_times_that_fall_into_it_are_answered_as_the_broker_did(
        self, topic: Topic
    ) -> None:
        inside = [
            (time, told)
            for _, time, told in answers("leader-changes")
            if told is not None and self.FIRST < told.offset < self.END
        ]
        assert inside
        for time, told in inside:
            assert topic.offsets_for_times({0: time}) == {0: told}
