import pickle
import re
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest

from support.distant import distant
from support.kafka_data import KAFKA, REMOTE
from support.segments import records, segment
from support.stores import files_of, fill
from support.wire import encode_batch
from tieredfs import (
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    OffsetOutOfRangeError,
    PluginError,
    RequestCounter,
    RequestPolicy,
    SegmentIndexes,
    SegmentMetadata,
    Tier,
    TieredFSWarning,
    Topic,
    TopicIdPartition,
    open_storage,
    open_tier,
)
from tieredfs.cache import with_index_cache
from tieredfs.log.partitions import select_partitions
from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.storage.layouts.kafka_local import KafkaLocal

OLD, NEW = "AAAAAAAAAAAAAAAAAAAAAQ", "-AAAAAAAAAAAAAAAAAAAAA"
TXN = KAFKA / "txn" / REMOTE


def tier_of(store: ObjectStore) -> Tier:
    return Tier(open_storage(store, "kafka-local"))


def add(
    store: ObjectStore,
    topic: str,
    topic_id: str,
    start: int,
    *,
    timestamp: int = 1_700_000_000_000,
) -> None:
    log = encode_batch(records(start, 5, timestamp=timestamp))
    fill(store, segment(f"{topic}-0-{topic_id}", start, log))


class TestNames:
    def test_topics_are_sorted_and_internal_ones_left_out(
        self, memory: ObjectStore
    ) -> None:
        for name in ("b", "a", "__consumer_offsets", "a-1"):
            add(memory, name, OLD, 0)
        tier = tier_of(memory)
        assert tier.topics() == ["a", "a-1", "b"]
        assert tier.topic("__consumer_offsets").end_offsets() == {0: 5}
        assert (tier.topic("a").name, tier.topic("a").topic_id) == ("a", OLD)

    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            ("order", " (did you mean 'orders'?)"),
            ("ORDERS", " (did you mean 'orders'?)"),
            ("orders-0", " (did you mean 'orders'?)"),
            ("paymnets", " (did you mean 'payments'?)"),
            ("zzz", ""),
        ],
    )
    def test_the_nearest_is_named_where_one_is_missing(
        self, memory: ObjectStore, name: str, hint: str
    ) -> None:
        for topic in ("orders", "payments"):
            add(memory, topic, OLD, 0)
        tier = tier_of(memory)
        said = re.escape(f"not found: topic {name!r} in {memory.url}{hint}") + "$"
        with pytest.raises(NotFoundError, match=said):
            tier.topic(name)
        with pytest.raises(NotFoundError, match=said):
            select_partitions(tier.storage, ["orders", name])

    def test_an_id_that_is_missing_lists_those_that_are_there(
        self, memory: ObjectStore
    ) -> None:
        add(memory, "orders", OLD, 0)
        tier = tier_of(memory)
        with pytest.raises(NotFoundError, match=f"id {NEW} in .*; it has {OLD}$"):
            tier.topic("orders", topic_id=NEW)
        with pytest.raises(NotFoundError, match=f"topic 'orders' with id {NEW} in"):
            select_partitions(tier.storage, ["orders"], NEW)

    @pytest.mark.parametrize(
        "name", ["../x", "..", ".", "", "a/b", "/x", "a b", "é", "x" * 250, "a\0"]
    )
    def test_a_hostile_name_is_refused_and_nothing_is_asked(
        self, memory: ObjectStore, name: str
    ) -> None:
        add(memory, "a", OLD, 0)
        counter = RequestCounter()
        tier = tier_of(ObjectStore(memory.url, observer=counter))
        with pytest.raises(InvalidArgumentError, match="topic name"):
            tier.topic(name)
        assert counter.requests == 0

    def test_a_missing_topic_is_not_found(self, memory: ObjectStore) -> None:
        add(memory, "a", OLD, 0)
        with pytest.raises(NotFoundError, match=f"'b'.*{memory.url}"):
            tier_of(memory).topic("b")
        with pytest.raises(NotFoundError, match=NEW):
            tier_of(memory).topic("a", topic_id=NEW)

    def test_hostile_folders_are_no_topics(self, memory: ObjectStore) -> None:
        for name in ("..", ".", "a b", "x" * 250):
            add(memory, name, OLD, 0)
        add(memory, "good", OLD, 0)
        assert tier_of(memory).topics() == ["good"]


class TestSeveralIds:
    @pytest.fixture
    def twice(self, memory: ObjectStore) -> Tier:
        """A topic that was deleted and made again; the ids sort the other way round."""
        add(memory, "t", OLD, 0)
        add(memory, "t", OLD, 5)
        add(memory, "t", NEW, 0, timestamp=1_800_000_000_000)
        return tier_of(memory)

    def test_the_newest_is_chosen_with_a_warning(self, twice: Tier) -> None:
        with pytest.warns(TieredFSWarning, match=NEW) as seen:
            topic = twice.topic("t")
        assert OLD in str(seen[0].message)
        assert seen[0].filename == __file__
        assert topic.topic_id == NEW
        assert topic.end_offsets() == {0: 5}

    @pytest.mark.parametrize(("topic_id", "end"), [(OLD, 10), (NEW, 5)])
    def test_an_id_chooses_without_one(
        self, twice: Tier, topic_id: str, end: int
    ) -> None:
        topic = twice.topic("t", topic_id=topic_id)
        assert topic.topic_id == topic_id
        assert topic.end_offsets() == {0: end}
        assert topic.scan().to_table().num_rows == end

    def test_the_name_is_listed_once(self, twice: Tier) -> None:
        assert twice.topics() == ["t"]


class TestWhatWasAddedSince:
    def test_it_is_seen_by_the_next_call(self, memory: ObjectStore) -> None:
        add(memory, "t", OLD, 0)
        tier = tier_of(memory)
        topic = tier.topic("t")
        scan = topic.scan()
        assert topic.end_offsets() == {0: 5}
        add(memory, "t", OLD, 5, timestamp=1_800_000_000_000)
        add(memory, "u", OLD, 0)
        assert topic.end_offsets() == {0: 10}
        assert topic.scan().to_table().num_rows == 10
        assert topic.read(0, 5)["offset"].to_pylist() == [5, 6, 7, 8, 9]
        found = topic.offsets_for_times({0: 1_800_000_000_001})[0]
        assert found is not None
        assert found.offset == 6
        assert scan.to_table().num_rows == 5  # a plan stays what it is
        assert tier.topics() == ["t", "u"]

    @pytest.mark.parametrize(("bound", "expected"), [("start", 0), ("end", 5)])
    def test_a_scan_by_time_is_planned_from_one_listing(
        self,
        bound: str,
        expected: int,
        memory: ObjectStore,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        late = 1_800_000_000_000
        add(memory, "t", OLD, 0)
        tier = tier_of(memory)
        listed = tier.storage.list_segments

        def and_add(partition: TopicIdPartition) -> list[SegmentMetadata]:
            found = listed(partition)
            add(memory, "t", OLD, 5, timestamp=late)
            return found

        topic = tier.topic("t")
        monkeypatch.setattr(tier.storage, "list_segments_lazily", and_add)
        time: dict[str, Any] = {bound: datetime.fromtimestamp(late // 1000, UTC)}
        assert topic.scan(**time).to_table().num_rows == expected
        assert topic.end_offsets() == {0: 10}

    @pytest.mark.parametrize(
        "plan",
        [
            pytest.param(lambda topic: topic.scan(), id="scan"),
            pytest.param(
                lambda topic: topic.scan(start="2000-01-01", end="2030-01-01"),
                id="scan by time",
            ),
            pytest.param(lambda topic: topic.beginning_offsets(), id="beginnings"),
            pytest.param(lambda topic: topic.end_offsets(), id="ends"),
            pytest.param(
                lambda topic: topic.offsets_for_times(dict.fromkeys(range(20), 0)),
                id="times",
            ),
        ],
    )
    def test_all_partitions_are_listed_concurrently_and_once(
        self,
        plan: Callable[[Topic], object],
        memory: ObjectStore,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        made = Tier(open_storage(memory, "single-object")).create_topic(
            "t", partitions=20
        )
        for number in made.partitions:
            made.append(pa.table({"value": [b"one"]}), number)
        tier = open_tier(distant(memory.url), plugin="single-object")
        topic = tier.topic("t")
        everyone, times = Barrier(20), []
        listed = tier.storage.list_segments

        def together(partition: TopicIdPartition) -> list[SegmentMetadata]:
            times.append(partition)
            everyone.wait(10)
            return listed(partition)

        monkeypatch.setattr(tier.storage, "list_segments_lazily", together)
        monkeypatch.setattr(tier.storage, "seek", lambda one, _: together(one))
        monkeypatch.setattr(tier.storage, "survey", lambda one: iter(together(one)))
        plan(topic)
        assert len(times) == 20

    def test_a_reader_plans_the_same_slices_as_a_scan(
        self, memory: ObjectStore
    ) -> None:
        add(memory, "t", OLD, 0)
        topic = tier_of(memory).topic("t")
        planned = topic.reader(0).slices(1, None)
        assert tuple(planned) == topic.scan(start=1).plan.slices
        with pytest.raises(OffsetOutOfRangeError):
            topic.reader(0).slices(6, None)

    def test_what_is_known_of_a_segment_is_not_asked_again(
        self, memory: ObjectStore
    ) -> None:
        add(memory, "t", OLD, 0)
        counter = RequestCounter()
        topic = tier_of(ObjectStore(memory.url, observer=counter)).topic("t")
        topic.end_offsets()
        before = counter.by_verb()
        topic.end_offsets()
        after = counter.by_verb()
        changed = {verb for verb in after if after[verb] != before.get(verb)}
        assert changed == {"list"}


class TestRead:
    @pytest.fixture(scope="class")
    @classmethod
    def topic(cls) -> Topic:
        """22 segments with control batches between the records."""
        return open_tier(str(TXN)).topic("txn")

    def test_records_below_the_offset_are_dropped(self, topic: Topic) -> None:
        for offset in (0, 3, 75, 76, 100):
            table = topic.read(0, offset, 1)
            assert table["offset"].to_pylist()[0] == offset

    def test_at_least_one_batch_comes_however_large(self) -> None:
        plain = open_tier(str(KAFKA / "plain" / REMOTE)).topic("plain")
        for offset in range(231, 298, 5):
            assert plain.read(0, offset, 1)["offset"].to_pylist()[0] == offset

    def test_it_reads_about_as_much_as_was_asked(self, topic: Topic) -> None:
        few = topic.read(0, 100, 2_000).num_rows
        more = topic.read(0, 100, 20_000).num_rows
        assert 0 < few < more < topic.read(0, 100, 1 << 20).num_rows

    def test_it_goes_on_in_the_next_segment(self, topic: Topic) -> None:
        found = topic.read(0, 70, 20_000)["offset"].to_pylist()
        assert found[0] == 70
        assert found[-1] > 76

    def test_at_the_end_there_is_nothing_and_behind_it_an_error(
        self, topic: Topic
    ) -> None:
        empty = topic.read(0, 1612)
        assert empty.num_rows == 0
        assert empty.next_offset == 1612
        assert empty.records.schema == topic.scan().schema
        for offset in (-1, 1613):
            with pytest.raises(OffsetOutOfRangeError):
                topic.read(0, offset)


class TestTheTierItself:
    def test_it_is_a_context_manager(self) -> None:
        with open_tier(str(TXN)) as tier:
            assert tier.topics() == ["txn"]

    def test_it_takes_another_policy(self) -> None:
        tier = open_tier(str(TXN)).with_policy(RequestPolicy(attempts=1))
        assert tier.storage.store.policy.attempts == 1
        assert tier.topic("txn").end_offsets() == {0: 1612}

    def test_closing_a_view_of_it_leaves_it_open(
        self, memory: ObjectStore, tmp_path: Path
    ) -> None:
        fill(memory, files_of(TXN))
        storage = with_index_cache(KafkaLocal(memory), tmp_path)
        tier = Tier(storage)
        with tier.with_policy(RequestPolicy(attempts=1)) as view:
            assert view.topic("txn").scan(start={0: 3}).to_table().num_rows
        assert tier.topic("txn").scan(start={0: 3}).to_table().num_rows

    def test_reprs_are_short_and_tell_no_secret(self, memory: ObjectStore) -> None:
        fill(memory, files_of(TXN))
        secret = "hunter2hunter2"  # noqa: S105 - made up
        store = ObjectStore(memory.url, {"secret": secret})
        tier = tier_of(store)
        scan = tier.topic("txn").scan()
        things = [tier, tier.storage, tier.topic("txn"), scan, scan.plan, store]
        shown = [repr(thing) for thing in things] + [str(thing) for thing in things]
        assert all(secret not in text and len(text) < 150 for text in shown)
        assert repr(tier.topic("txn")) == "Topic('txn', partitions=1)"
        assert "segments=22" in repr(scan)
        remote = open_tier(
            f"kafka-local+s3://user:{secret}@bucket/x",
            storage_options={"secret": secret},
        )
        assert secret not in repr(remote)
        assert "s3://***@bucket/x" in repr(remote)


class _Silent(KafkaLocal):
    """A layout that lists segments, and does not say where they end."""

    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        del indexes
        return metadata


class _Vague(KafkaLocal):
    """A layout that does not say how late the records of a segment are."""

    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        return replace(super().describe(metadata, indexes), max_timestamp_ms=None)


@pytest.mark.parametrize("layout", [_Silent, _Vague])
def test_a_plugin_that_does_not_describe_is_an_error_and_loses_no_record(
    memory: ObjectStore, layout: type[KafkaLocal]
) -> None:
    add(memory, "t", OLD, 0)
    topic = Tier(layout(memory)).topic("t")
    for ask in (
        topic.end_offsets,
        topic.scan,
        lambda: topic.read(0, 0),
        lambda: topic.offsets_for_times({0: 0}),
    ):
        with pytest.raises(PluginError, match=rf"{layout.__name__}.*t-0/0"):
            ask()


class TestPositions:
    @pytest.mark.parametrize(
        "position", [True, {0: "2023-11-20"}, {0: True}, {0: None}, {0: 1.5}], ids=str
    )
    def test_what_is_no_position_is_refused(
        self,
        position: Any,  # noqa: ANN401 - none is one
        memory: ObjectStore,
    ) -> None:
        add(memory, "t", OLD, 0)
        topic = tier_of(memory).topic("t")
        with pytest.raises(InvalidArgumentError, match=r"not a position|an integer"):
            topic.scan(start=position)
        with pytest.raises(InvalidArgumentError, match=r"not a position|an integer"):
            topic.scan(end=position)

    def test_partitions_are_a_list(self, memory: ObjectStore) -> None:
        add(memory, "t", OLD, 0)
        number: Any = 0
        with pytest.raises(InvalidArgumentError, match="list of numbers"):
            tier_of(memory).topic("t").scan(number)


def test_a_tier_is_opened_at_a_path() -> None:
    assert open_tier(TXN).topics() == ["txn"]


class _Named(Tier):
    """A tier that keeps something of its own."""

    def __init__(self, name: str, store: ObjectStore) -> None:
        super().__init__(open_storage(store, "kafka-local"))
        self.name = name


class _NamedTopic(Topic):
    """A topic that keeps something of its own."""

    label = ""


def test_a_view_and_a_copy_of_a_tier_keep_its_class_and_what_it_has(
    tmp_path: Path,
) -> None:
    fill(
        ObjectStore(str(tmp_path)),
        segment("t-0-dao62lTOQsGBPyjJLrpQKw", 0, encode_batch(records(0, 10))),
    )
    tier = _Named("mine", ObjectStore(str(tmp_path)))
    policy = RequestPolicy(attempts=1)
    view = tier.with_policy(policy)
    assert view.storage.store.policy == policy
    assert tier.storage.store.policy != policy
    again = pickle.loads(pickle.dumps(tier))  # noqa: S301 - our own
    for other in (view, copy(tier), again):
        assert isinstance(other, _Named)
        assert other.name == "mine"
        assert len(other.topic("t").scan().to_table()) == 10


def test_a_copy_of_a_topic_keeps_its_class_and_what_it_has(tmp_path: Path) -> None:
    fill(
        ObjectStore(str(tmp_path)),
        segment("t-0-dao62lTOQsGBPyjJLrpQKw", 0, encode_batch(records(0, 10))),
    )
    storage = open_storage(ObjectStore(str(tmp_path)), "kafka-local")
    topic = _NamedTopic(storage, SegmentCatalog(storage), storage.list_partitions())
    topic.label = "mine"
    for other in (copy(topic), pickle.loads(pickle.dumps(topic))):  # noqa: S301 - our own
        assert isinstance(other, _NamedTopic)
        assert (other.label, other.name, other.partitions) == ("mine", "t", (0,))
        assert len(other.scan().to_table()) == 10
