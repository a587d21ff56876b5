"""Segments expire from the beginning of a log on, whole, and once and for all."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar, cast
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.kafscale import kafscale
from tieredfs import (
    FencedError,
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    RemoteStorageManager,
    SegmentId,
    SegmentMetadata,
    StorageUnavailableError,
    Tier,
    TopicIdPartition,
    UnsupportedOperationError,
    Uuid,
    open_storage,
)
from tieredfs.log.journal import heartbeat as heartbeats
from tieredfs.log.journal.heartbeat import Heartbeat
from tieredfs.log.journal.journal import (
    PartitionJournal,
    first_copied_offset,
    read_state,
)
from tieredfs.log.journal.led_partition import LedPartition
from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.log.planning.overlap import Tile
from tieredfs.log.retention.delete import delete_partitions
from tieredfs.log.retention.expire import ExpiredPartition, expire
from tieredfs.log.retention.partition_expiry import plan_expiry
from tieredfs.log.retention.plan import Retention, expired_until
from tieredfs.model import UNKNOWN_TOPIC_ID
from tieredfs.states import PartitionDeleteState, SegmentState
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.storage.plugins.registry import check_target
from tieredfs.testing.samples import PARTITIONS, sample
from tieredfs.testing.stores import (
    WRITES,
    InterceptedStore,
    WatchedStore,
    scratch_store,
)

PARTITION, OTHER, _ = PARTITIONS
EACH = 20
"""Offsets of a sample, whose records are a millisecond apart."""

SEGMENTS = 5
FIRST_MS = 1_760_000_000_000
LAYOUTS = (SingleObject, KafkaLocal)

_T = TypeVar("_T")
MakeStorage = Callable[[ObjectStore], RemoteStorageManager]


def fill(storage: RemoteStorageManager, segments: int = SEGMENTS) -> None:
    for number in range(segments):
        one = sample(PARTITION, number)
        storage.copy_log_segment(one.metadata, one.data)


def starts(storage: RemoteStorageManager) -> list[int]:
    return [segment.start_offset for segment in storage.list_segments(PARTITION)]


def log_start(store: ObjectStore) -> int:
    entry = PartitionJournal(store, PARTITION, "reader").read()
    return 0 if entry is None else entry.state.log_start


def newest(number: int) -> int:
    """Return the largest timestamp of a sample."""
    return sample(PARTITION, number).described.max_timestamp_ms or 0


def run(
    storage: RemoteStorageManager,
    retention: Retention,
    *,
    now_ms: int = FIRST_MS,
    dry_run: bool = False,
) -> ExpiredPartition:
    (found,) = expire(
        storage,
        [PARTITION],
        retention,
        owner="test",
        now_ms=lambda: now_ms,
        dry_run=dry_run,
    )
    return found


def segment(
    number: int,
    *,
    timestamp: int = -1,
    size: int = 10,
    start: int | None = None,
    end: int | None = None,
) -> SegmentMetadata:
    return SegmentMetadata(
        PARTITION,
        SegmentId.from_bytes(number.to_bytes(16)),
        number * EACH if start is None else start,
        number * EACH + EACH - 1 if end is None else end,
        timestamp,
        (),
        size,
    )


def tiled(segments: Sequence[SegmentMetadata]) -> list[Tile]:
    return [Tile(one, one.start_offset, (one.end_offset or 0) + 1) for one in segments]


def kept_from(tiles: Sequence[Tile], retention: Retention, now: int = 1000) -> object:
    return expired_until(tiles, retention, now, lambda one: one)


class TestWhatExpires:
    """What Kafka's RemoteLogManager decides for the same segments."""

    def test_nothing_without_a_limit(self) -> None:
        assert kept_from(tiled([segment(0, timestamp=0)]), Retention()) is None

    def test_a_segment_all_of_whose_records_are_too_old(self) -> None:
        tiles = tiled([segment(n, timestamp=100 * n) for n in range(5)])
        assert kept_from(tiles, Retention(max_age_ms=800)) == 3 * EACH
        assert kept_from(tiles, Retention(max_age_ms=801)) == 2 * EACH
        assert kept_from(tiles, Retention(max_age_ms=0)) == 5 * EACH

    def test_none_after_one_that_is_young_enough(self) -> None:
        tiles = tiled([segment(n, timestamp=t) for n, t in enumerate([0, 900, 0])])
        assert kept_from(tiles, Retention(max_age_ms=500)) == EACH

    def test_none_without_a_timestamp(self) -> None:
        tiles = tiled([segment(0, timestamp=-1)])
        assert kept_from(tiles, Retention(max_age_ms=0)) is None

    def test_none_from_the_future(self) -> None:
        tiles = tiled([segment(0, timestamp=2**62), segment(1, timestamp=0)])
        assert kept_from(tiles, Retention(max_age_ms=0)) is None

    def test_a_whole_segment_of_what_is_too_large(self) -> None:
        tiles = tiled([segment(n, size=10) for n in range(5)])
        assert kept_from(tiles, Retention(max_bytes=50)) is None
        assert kept_from(tiles, Retention(max_bytes=41)) is None
        assert kept_from(tiles, Retention(max_bytes=40)) == EACH
        assert kept_from(tiles, Retention(max_bytes=0)) == 5 * EACH

    def test_one_that_is_older_than_an_offset(self) -> None:
        tiles = tiled([segment(n) for n in range(5)])
        assert kept_from(tiles, Retention(start_offset=2 * EACH)) == 2 * EACH
        assert kept_from(tiles, Retention(start_offset=2 * EACH - 1)) == EACH

    def test_each_limit_continues_where_another_one_ends(self) -> None:
        times = [900, 0, 900, 900, 900]
        tiles = tiled([segment(n, timestamp=t) for n, t in enumerate(times)])
        both = Retention(start_offset=EACH, max_age_ms=500, max_bytes=20)
        assert kept_from(tiles, both) == 3 * EACH

    def test_what_serves_nothing_neither_counts_nor_holds_up(self) -> None:
        lost = segment(9, timestamp=999, start=5, end=EACH + 3)
        tiles = tiled([segment(n, timestamp=0) for n in range(3)])
        assert lost not in {tile.segment for tile in tiles}
        assert kept_from(tiles, Retention(max_age_ms=500)) == 3 * EACH

    def test_a_log_begins_where_no_segment_that_is_kept_does_serve_earlier(
        self,
    ) -> None:
        """One that serves offsets on both sides of another expires with it."""
        around, inside = segment(0, timestamp=0, end=59), segment(1, timestamp=900)
        tiles = [Tile(around, 0, 20), Tile(inside, 20, 40), Tile(around, 40, 60)]
        assert kept_from(tiles, Retention(max_age_ms=500)) is None
        old = replace(inside, max_timestamp_ms=0)
        tiles = [Tile(around, 0, 20), Tile(old, 20, 40), Tile(around, 40, 60)]
        assert kept_from(tiles, Retention(max_age_ms=500)) == 60

    @given(
        st.lists(st.tuples(st.integers(-1, 100), st.integers(0, 50)), max_size=12),
        st.none() | st.integers(0, 120),
        st.none() | st.integers(0, 400),
        st.integers(0, 12 * EACH),
    )
    def test_it_is_the_longest_beginning_that_a_limit_excludes(
        self,
        drawn: list[tuple[int, int]],
        max_age: int | None,
        max_bytes: int | None,
        start: int,
    ) -> None:
        segments = [
            segment(n, timestamp=t, size=size) for n, (t, size) in enumerate(drawn)
        ]
        remaining = sum(size for _, size in drawn)
        expected = None
        for one, (timestamp, size) in zip(segments, drawn, strict=True):
            end = (one.end_offset or 0) + 1
            is_old = max_age is not None and 0 <= timestamp <= 100 - max_age
            is_excess = (
                max_bytes is not None and size > 0 and remaining - size >= max_bytes
            )
            if not (end <= start or is_old or is_excess):
                break
            remaining -= size
            expected = end
        retention = Retention(max_age, max_bytes, start)
        assert kept_from(tiled(segments), retention, 100) == expected

    @pytest.mark.parametrize("name", ["max_age_ms", "max_bytes", "start_offset"])
    def test_a_negative_limit_is_refused(self, name: str) -> None:
        with pytest.raises(InvalidArgumentError, match=f"{name} -1 is negative"):
            Retention(**{name: -1})


@pytest.mark.parametrize("layout", LAYOUTS)
class TestExpiry:
    def test_what_is_too_old_is_deleted(
        self, layout: MakeStorage, memory: ObjectStore
    ) -> None:
        storage = layout(memory)
        fill(storage)
        found = run(storage, Retention(max_age_ms=10), now_ms=newest(1) + 10)
        assert (found.log_start, found.error) == (2 * EACH, None)
        assert [one.start_offset for one in found.segments] == [0, EACH]
        assert starts(storage) == [2 * EACH, 3 * EACH, 4 * EACH]
        assert log_start(memory) == 2 * EACH
        topic = Tier(layout(memory)).topic(PARTITION.topic)
        assert topic.beginning_offsets() == {0: 2 * EACH}
        assert topic.scan().to_table()["offset"].to_pylist()[0] == 2 * EACH

    def test_what_is_too_much_is_deleted(
        self, layout: MakeStorage, memory: ObjectStore
    ) -> None:
        storage = layout(memory)
        fill(storage)
        sizes = [len(sample(PARTITION, number).log) for number in range(SEGMENTS)]
        run(storage, Retention(max_bytes=sum(sizes[2:])))
        assert starts(storage) == [2 * EACH, 3 * EACH, 4 * EACH]

    def test_all_of_it_may_expire(
        self, layout: MakeStorage, memory: ObjectStore
    ) -> None:
        storage = layout(memory)
        fill(storage)
        run(storage, Retention(max_bytes=0))
        assert storage.list_partitions() == []
        assert log_start(memory) == SEGMENTS * EACH
        assert run(storage, Retention(max_bytes=0)).segments == ()

    def test_a_dry_run_changes_nothing(
        self, layout: MakeStorage, memory: ObjectStore
    ) -> None:
        storage = layout(memory)
        fill(storage)
        before = [entry.key for entry in memory.list()]
        found = run(storage, Retention(start_offset=2 * EACH), dry_run=True)
        assert found.log_start == 2 * EACH
        assert [one.start_offset for one in found.segments] == [0, EACH]
        assert [entry.key for entry in memory.list()] == before

    def test_where_nothing_expires_nothing_is_written(
        self, layout: MakeStorage, memory: ObjectStore
    ) -> None:
        fill(layout(memory))
        watched = WatchedStore.over(memory, WRITES)
        assert run(layout(watched), Retention(max_age_ms=0), now_ms=0).segments == ()
        assert watched.calls == 0

    def test_it_is_complete_after_each_death(
        self, layout: MakeStorage, memory: ObjectStore
    ) -> None:
        """It dies at each write, once before and once after the store has done it."""
        del memory
        retention = Retention(start_offset=3 * EACH)
        for limit, is_landed in _until_it_lives(layout, retention):
            with _killed(layout, limit, retention, is_landed=is_landed) as store:
                storage = layout(store)
                found = starts(storage)
                assert found == list(range(found[0], SEGMENTS * EACH, EACH))
                assert found == [0, *found[1:]] or log_start(store) == 3 * EACH
                assert run(storage, retention).error is None
                assert starts(storage) == [3 * EACH, 4 * EACH]
                assert log_start(store) == 3 * EACH
                entry = PartitionJournal(store, PARTITION, "reader").read()
                assert entry is not None
                assert entry.state.segments == {}
                assert entry.state.leader is None

    def test_what_was_noted_is_deleted_though_a_later_run_keeps_more(
        self, layout: MakeStorage, memory: ObjectStore
    ) -> None:
        storage = layout(memory)
        fill(storage)
        led = LedPartition(Heartbeat(memory, "dead"), PARTITION)
        doomed = storage.list_segments(PARTITION)[:2]
        if layout is KafkaLocal:
            doomed = [storage.describe(one) for one in doomed]
        started = SegmentState.DELETE_SEGMENT_STARTED
        led.lead(
            0,
            "d",
            lambda s: s.with_log_start(2 * EACH).with_segments(doomed, started, 0),
        )
        memory.delete([entry.key for entry in memory.list("@tieredfs/manager/alive/")])
        run(storage, Retention())
        assert starts(storage) == [2 * EACH, 3 * EACH, 4 * EACH]


def _until_it_lives(
    layout: MakeStorage, retention: Retention
) -> Iterator[tuple[int, bool]]:
    """Yield each number of writes after which a run can die."""
    with scratch_store() as store:
        fill(layout(store))
        watched = WatchedStore.over(store, WRITES)
        run(layout(watched), retention)
        writes = watched.calls
    assert writes >= 6
    for limit in range(writes):
        yield limit, False
        yield limit, True


@contextmanager
def _killed(
    layout: MakeStorage, limit: int, retention: Retention, *, is_landed: bool
) -> Iterator[ObjectStore]:
    """Yield a store in which a run has died after so many writes."""
    with scratch_store() as store:
        fill(layout(store))
        dying = WatchedStore.over(store, WRITES, limit=limit, is_landed=is_landed)
        with pytest.raises(StorageUnavailableError):
            run(layout(dying), retention)
        # Its heartbeat is a minute old.
        store.delete([entry.key for entry in store.list("@tieredfs/manager/alive/")])
        yield store


def test_a_partition_that_a_manager_leads_is_left_to_it(memory: ObjectStore) -> None:
    storage = SingleObject(memory)
    fill(storage)
    manager = LedPartition(Heartbeat(memory, "manager"), PARTITION)
    manager.lead(7, "led", lambda state: state)
    found = run(storage, Retention(start_offset=2 * EACH))
    assert isinstance(found.error, FencedError)
    assert "manager is in charge" in str(found.error)
    assert (found.log_start, found.segments) == (0, ())
    assert len(starts(storage)) == SEGMENTS
    (alone,) = expire(
        storage,
        [PARTITION],
        Retention(start_offset=2 * EACH),
        owner="test",
        single_writer=True,
    )
    assert alone.error is None
    assert starts(storage) == [2 * EACH, 3 * EACH, 4 * EACH]


def test_a_partition_that_cannot_be_expired_leaves_the_others(
    memory: ObjectStore,
) -> None:
    storage = SingleObject(memory)
    fill(storage)
    one = sample(OTHER, 0)
    storage.copy_log_segment(one.metadata, one.data)
    LedPartition(Heartbeat(memory, "manager"), OTHER).lead(1, "led", lambda s: s)
    found = expire(
        storage, [OTHER, PARTITION], Retention(max_bytes=0), owner="test", concurrency=1
    )
    assert [type(each.error) for each in found] == [FencedError, type(None)]
    assert storage.list_partitions() == [OTHER]


@pytest.mark.parametrize("layout", [kafscale, SingleObject])
def test_where_topics_have_no_id_another_one_of_the_name_expires_by_the_limits_alone(
    layout: MakeStorage, memory: ObjectStore
) -> None:
    """What the journal says may be of a topic that was deleted since."""
    storage = layout(memory)
    partition = TopicIdPartition("t", 0, UNKNOWN_TOPIC_ID)

    def expired(retention: Retention) -> tuple[int, object]:
        (found,) = expire(storage, [partition], retention, owner="test")
        return len(found.segments), found.error

    for first, count in ((0, 5), (1, 3)):
        for number in range(count):
            one = sample(partition, number, f"of topic {first}")
            storage.copy_log_segment(one.metadata, one.data)
        if not first:
            assert expired(Retention(max_bytes=0)) == (5, None)
    assert expired(Retention(max_bytes=1 << 40)) == (0, None)
    # A manager looks again when the first of the segments that are there is too old.
    plan = plan_expiry(
        storage,
        SegmentCatalog(storage),
        read_state(memory, partition),
        Retention(max_age_ms=1000),
        now_ms=0,
    )
    newest_ms = sample(partition, 0).described.max_timestamp_ms or 0
    assert (plan.segments, plan.next_ms) == ((), newest_ms + 1000)
    assert expired(Retention(start_offset=EACH)) == (1, None)
    listed = storage.list_segments(partition)
    assert [one.start_offset for one in listed] == [EACH, 2 * EACH]


class Failing(InterceptedStore):
    """A store that fails for one partition while it deletes a segment of another."""

    error: type[BaseException]
    is_deleting: threading.Event
    has_raised: threading.Event

    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        if verb == "delete" and "manager" not in keys[0]:
            if keys[0].startswith(f"{OTHER.topic}/{OTHER.topic_id}/{OTHER.partition}/"):
                assert self.is_deleting.wait(60)
                raise self.error("down")
            self.is_deleting.set()
            assert self.has_raised.wait(60)
        return execute()


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("error", [StorageUnavailableError, KeyboardInterrupt])
def test_when_it_raises_no_further_segment_is_deleted(
    memory: ObjectStore, error: type[BaseException], order: int
) -> None:
    fill(SingleObject(memory))
    one = sample(OTHER, 0)
    SingleObject(memory).copy_log_segment(one.metadata, one.data)
    store = Failing._onto(memory)
    store.error = error
    store.is_deleting, store.has_raised = threading.Event(), threading.Event()
    before = set(threading.enumerate())
    with pytest.raises(error):
        expire(
            SingleObject(store),
            [PARTITION, OTHER][::order],
            Retention(max_bytes=0),
            owner="test",
        )
    store.has_raised.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
    assert starts(SingleObject(memory)) == [n * EACH for n in range(1, SEGMENTS)]
    alive = [entry.key for entry in memory.list("@tieredfs/manager/alive/")]
    assert len(alive) == (error is KeyboardInterrupt)
    found = expire(
        SingleObject(memory),
        [PARTITION, OTHER],
        Retention(),
        owner="next",
        single_writer=True,
    )
    assert [each.error for each in found] == [None, None]
    assert SingleObject(memory).list_partitions() == []


class Slow(InterceptedStore):
    """A store where a deletion takes as long as three heartbeats."""

    beats: "queue.Queue[str]"

    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        if verb == "put" and "/alive/" in keys[0]:
            self.beats.put(keys[0])
        if verb == "delete" and "manager" not in keys[0]:
            while not self.beats.empty():
                self.beats.get()
            for _ in range(3):
                self.beats.get(timeout=60)
        return execute()


@pytest.mark.parametrize("verb", ["expire", "rm"])
def test_a_manager_says_that_it_is_alive_also_while_a_deletion_takes_long(
    memory: ObjectStore, verb: str
) -> None:
    fill(SingleObject(memory), 2)
    store = Slow._onto(memory)
    store.beats = queue.Queue()
    with mock.patch.object(heartbeats, "_PER_LIFETIME", 1200):
        if verb == "rm":
            delete_partitions(SingleObject(store), [PARTITION], owner="test")
        else:
            assert run(SingleObject(store), Retention(max_bytes=0)).error is None
    assert SingleObject(memory).list_partitions() == []


def test_a_broker_s_log_directory_is_never_expired(memory: ObjectStore) -> None:
    with pytest.raises(UnsupportedOperationError, match="read only"):
        expire(KafkaLog(memory), [PARTITION], Retention(max_bytes=0), owner="test")


def test_a_concurrency_below_1_is_refused(memory: ObjectStore) -> None:
    with pytest.raises(InvalidArgumentError, match="concurrency 0 is below 1"):
        expire(SingleObject(memory), [], Retention(), owner="test", concurrency=0)


class Meeting(InterceptedStore):
    """A store where something else happens at one of the requests."""

    left: int
    has_landed: bool
    act: Callable[[], object]

    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        del keys
        is_now, self.left = not self.left, self.left - 1
        if is_now and not self.has_landed:
            self.act()
        answer: object = execute()
        if verb == "list" and isinstance(answer, Iterable):
            answer = iter(list(answer))  # as it was
        if is_now and self.has_landed:
            self.act()
        return cast("_T", answer)


class TestAfterwards:
    def test_an_append_continues_where_the_log_ended(self, memory: ObjectStore) -> None:
        tier = Tier(SingleObject(memory))
        topic = tier.create_topic("t")
        (partition,) = [TopicIdPartition("t", 0, Uuid(topic.topic_id))]
        topic.append(pa.table({"value": [b"a", b"b"]}))
        expire(tier.storage, [partition], Retention(max_bytes=0), owner="test")
        assert tier.topics() == []
        again = Tier(SingleObject(memory)).create_topic("t", topic_id=topic.topic_id)
        assert again.append(pa.table({"value": [b"c"]})) == range(2, 3)

    @pytest.mark.parametrize("at", range(10))
    @pytest.mark.parametrize("has_landed", [False, True])
    def test_an_append_succeeds_though_all_expires_at_any_of_its_requests(
        self, memory: ObjectStore, at: int, *, has_landed: bool
    ) -> None:
        tier = Tier(SingleObject(memory))
        topic = tier.create_topic("t")
        for _ in range(3):
            topic.append(pa.table({"value": [b"a"]}))
        (partition,) = tier.storage.list_partitions()

        def expire_all() -> None:
            expire(tier.storage, [partition], Retention(max_bytes=0), owner="other")

        store = Meeting._onto(memory)
        store.left, store.has_landed, store.act = -1, has_landed, expire_all
        writer = Tier(SingleObject(store)).topic("t")
        store.left = at
        assert writer.append(pa.table({"value": [b"b"]})) == range(3, 4)
        assert topic.append(pa.table({"value": [b"c"]})) == range(4, 5)

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_the_layout_is_detected_whatever_managers_have_noted(
        self, layout: MakeStorage, memory: ObjectStore
    ) -> None:
        storage = layout(memory)
        fill(storage)
        run(storage, Retention(start_offset=EACH))
        for number in range(2000):
            memory.put(f"@tieredfs/manager/journal/x/{number}", b"", overwrite=True)
        assert type(open_storage(memory)) is layout
        assert open_storage(memory).list_partitions() == [PARTITION]
        check_target(storage)

    def test_what_managers_have_noted_is_not_a_tier(self, memory: ObjectStore) -> None:
        storage = SingleObject(memory)
        fill(storage)
        run(storage, Retention(max_bytes=0))
        assert list(memory.list())
        with pytest.raises(NotFoundError, match="empty"):
            open_storage(memory)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_deletion_is_marked_before_anything_is_gone(
    layout: MakeStorage, memory: ObjectStore
) -> None:
    fill(layout(memory))
    before = starts(layout(memory))
    dying = WatchedStore.over(memory, {"delete"}, limit=0)
    with pytest.raises(StorageUnavailableError):
        delete_partitions(layout(dying), [PARTITION], owner="test")
    assert starts(layout(memory)) == before
    state = read_state(memory, PARTITION)
    assert state.deletion is PartitionDeleteState.DELETE_PARTITION_STARTED
    with pytest.raises(FencedError, match="orders-0 is being deleted"):
        first_copied_offset(layout(memory), PARTITION)
    memory.delete([entry.key for entry in memory.list("@tieredfs/manager/alive/")])
    delete_partitions(layout(memory), [PARTITION], owner="another")
    assert list(memory.list()) == []


def test_nothing_of_a_topic_is_deleted_where_a_partition_is_led(
    memory: ObjectStore,
) -> None:
    storage = SingleObject(memory)
    fill(storage)
    LedPartition(Heartbeat(memory, "manager"), OTHER).lead(1, "led", lambda s: s)
    with pytest.raises(FencedError):
        delete_partitions(storage, [PARTITION, OTHER], owner="remover")
    assert len(starts(storage)) == SEGMENTS
    with pytest.raises(FencedError, match="is being deleted"):
        first_copied_offset(storage, PARTITION)
