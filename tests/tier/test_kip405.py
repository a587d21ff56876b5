"""What KIP-405 says of earliest offsets, local indexes and deletions, case by case.

Each name is a sentence of the KIP, in our words: a segment's copy is the remote log
segment, the journal is the remote log metadata, the manager is the RemoteLogManager.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.managers import (
    QUICK,
    ROLLING,
    Noted,
    bury,
    grown,
    is_own,
    managing,
    status_of,
    stored,
    wait_for,
)
from support.rolling_log import RollingLog
from tieredfs import (
    FencedError,
    InvalidTransitionError,
    NotFoundError,
    ObjectStore,
    OffsetOutOfRangeError,
    RemoteStorageManager,
    Tier,
)
from tieredfs.cache.cache import RemoteIndexCache
from tieredfs.cache.storage import IndexCachedStorage
from tieredfs.log.journal.heartbeat import Heartbeat
from tieredfs.log.journal.journal import journalled_partitions, read_state
from tieredfs.log.journal.led_partition import LedPartition
from tieredfs.log.manager.settings import ManagerSettings
from tieredfs.log.manager.status import Role
from tieredfs.log.push.push import push
from tieredfs.log.retention.plan import Retention
from tieredfs.states import PartitionDeleteState, SegmentState
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.stores import WRITES, scratch_store

MakeStorage = Callable[[ObjectStore], RemoteStorageManager]


@pytest.fixture(params=[SingleObject, KafkaLocal])
def layout(request: pytest.FixtureRequest) -> MakeStorage:
    """A layout of the tier."""
    made: MakeStorage = request.param
    return made


@pytest.fixture
def log() -> Iterator[RollingLog]:
    """A broker's log of four closed segments of five records."""
    with scratch_store() as store:
        made = RollingLog(store)
        grown(made, 4)
        yield made


def source_of(log: RollingLog) -> KafkaLog:
    """Open the log directory."""
    return KafkaLog(log._store)


class TestEarliestOffset:
    """What the KIP calls the remote log start offset and the log start offset."""

    def test_it_is_the_first_offset_of_the_tier_and_not_of_the_local_log(
        self, layout: MakeStorage, memory: ObjectStore, log: RollingLog
    ) -> None:
        """ListOffsets with EARLIEST answers for the whole log, local or not."""
        with managing(layout(memory), source_of(log)) as manager:
            manager.assign(ROLLING, epoch=0)
            wait_for(lambda: status_of(manager, ROLLING).end_offset == 20)
            log.delete_until(15)  # local retention is shorter
            manager.wake(ROLLING)
            assert source_of(log).list_segments(ROLLING)[0].start_offset == 15
            wait_for(lambda: status_of(manager, ROLLING).earliest_offset == 0)
        topic = Tier(layout(memory)).topic("t")
        assert topic.beginning_offsets() == {0: 0}

    def test_the_local_log_is_deleted_only_up_to_what_is_in_the_tier(
        self, layout: MakeStorage, memory: ObjectStore, log: RollingLog
    ) -> None:
        """The end offset of the status is what a broker may delete up to.

        It never runs ahead of the tier.
        """
        ends = list[tuple[int, int]]()

        def note(_verb: str, _key: str) -> None:
            status = [s.end_offset or 0 for s in manager.status()]
            held = layout(memory)
            segments = [] if not stored(held) else held.list_segments(ROLLING)
            known = [held.describe(one).end_offset or 0 for one in segments]
            ends.append((status[0], max(known, default=-1) + 1))

        target = layout(Noted.over(memory, note))
        with managing(target, source_of(log)) as manager:
            manager.assign(ROLLING, epoch=0)
            wait_for(lambda: status_of(manager, ROLLING).end_offset == 20)
        assert ends
        assert all(said <= held for said, held in ends)

    def test_the_leader_moves_it_when_remote_segments_expire(
        self, layout: MakeStorage, memory: ObjectStore, log: RollingLog
    ) -> None:
        with managing(layout(memory), source_of(log)) as manager:
            retention = Retention(start_offset=10)
            manager.assign(ROLLING, epoch=0, retention=retention)
            wait_for(lambda: status_of(manager, ROLLING).earliest_offset == 10)
            wait_for(lambda: stored(layout(memory)) == [10, 15])
        topic = Tier(layout(memory)).topic("t")
        assert topic.beginning_offsets() == {0: 10}

    def test_it_is_known_before_the_segments_are_deleted(
        self, layout: MakeStorage, memory: ObjectStore, log: RollingLog
    ) -> None:
        """The log start offset is updated first, and the segments are deleted then."""
        starts = list[int]()

        def note(verb: str, key: str) -> None:
            if verb == "delete" and not is_own(key):
                starts.append(read_state(memory, ROLLING).log_start)

        with managing(layout(Noted.over(memory, note)), source_of(log)) as manager:
            retention = Retention(start_offset=10)
            manager.assign(ROLLING, epoch=0, retention=retention)
            wait_for(lambda: stored(layout(memory)) == [10, 15])
        assert set(starts) == {10}

    def test_a_new_leader_begins_with_the_one_of_the_leader_before(
        self, layout: MakeStorage, memory: ObjectStore, log: RollingLog
    ) -> None:
        """It is in the metadata: a leader that keeps everything brings nothing back."""
        with managing(layout(memory), source_of(log), name="one") as one:
            one.assign(ROLLING, epoch=0, retention=Retention(start_offset=10))
            wait_for(lambda: stored(layout(memory)) == [10, 15])
        with managing(layout(memory), source_of(log), name="two") as two:
            two.assign(ROLLING, epoch=1)
            grown(log, 1)
            wait_for(lambda: stored(layout(memory)) == [10, 15, 20])
            wait_for(lambda: status_of(two, ROLLING).earliest_offset == 10)

    def test_a_follower_learns_it(
        self, layout: MakeStorage, memory: ObjectStore, log: RollingLog
    ) -> None:
        with (
            managing(layout(memory), source_of(log), name="one") as leader,
            managing(layout(memory), name="two") as follower,
        ):
            follower.assign(ROLLING, Role.FOLLOWER, epoch=0)
            leader.assign(ROLLING, epoch=0)
            wait_for(lambda: status_of(leader, ROLLING).end_offset == 20)
            leader.raise_start_offset(ROLLING, 15)
            wait_for(lambda: status_of(follower, ROLLING).earliest_offset == 15)

    def test_delete_records_moves_it_and_cleans_the_tier_asynchronously(
        self, layout: MakeStorage, memory: ObjectStore, log: RollingLog
    ) -> None:
        """Whole segments only: the one that holds the offset stays."""
        with managing(layout(memory), source_of(log)) as manager:
            manager.assign(ROLLING, epoch=0)
            wait_for(lambda: status_of(manager, ROLLING).end_offset == 20)
            manager.raise_start_offset(ROLLING, 13)
            wait_for(lambda: stored(layout(memory)) == [10, 15])

    def test_a_read_before_it_is_out_of_range(
        self, layout: MakeStorage, memory: ObjectStore, log: RollingLog
    ) -> None:
        with managing(layout(memory), source_of(log)) as manager:
            retention = Retention(start_offset=10)
            manager.assign(ROLLING, epoch=0, retention=retention)
            wait_for(lambda: stored(layout(memory)) == [10, 15])
        topic = Tier(layout(memory)).topic("t")
        with pytest.raises(OffsetOutOfRangeError):
            topic.scan(start=4).to_table()


class TestCopies:
    """Only inactive segments up to the last stable offset are copied."""

    def test_the_active_segment_is_not_copied(
        self, layout: MakeStorage, memory: ObjectStore, log: RollingLog
    ) -> None:
        log.produce("plain", 0, 3)
        with managing(layout(memory), source_of(log)) as manager:
            manager.assign(ROLLING, epoch=0)
            wait_for(lambda: status_of(manager, ROLLING).end_offset == 20)
            assert stored(layout(memory)) == [0, 5, 10, 15]

    def test_nothing_above_the_last_stable_offset_is_copied(
        self, layout: MakeStorage, memory: ObjectStore, log: RollingLog
    ) -> None:
        log.produce("data", 1, 3)
        log.roll()
        with managing(layout(memory), source_of(log)) as manager:
            manager.assign(ROLLING, epoch=0)
            wait_for(lambda: status_of(manager, ROLLING).lag.segments == 1)
            assert stored(layout(memory)) == [0, 5, 10, 15]
            log.produce("abort", 1, 0)
            log.roll()
            wait_for(lambda: stored(layout(memory)) == [0, 5, 10, 15, 20, 23])

    def test_the_metadata_say_what_is_begun_before_it_is_begun(
        self, layout: MakeStorage, memory: ObjectStore, log: RollingLog
    ) -> None:
        """COPY_SEGMENT_STARTED comes before the copy, and FINISHED after it."""
        begun = list[set[SegmentState]]()

        def note(_verb: str, key: str) -> None:
            if not is_own(key):
                tracked = read_state(memory, ROLLING).segments.values()
                begun.append({one.state for one in tracked})

        with managing(layout(Noted.over(memory, note)), source_of(log)) as manager:
            manager.assign(ROLLING, epoch=0)
            wait_for(lambda: status_of(manager, ROLLING).end_offset == 20)
            wait_for(lambda: not read_state(memory, ROLLING).segments)
        assert begun
        assert all(one == {SegmentState.COPY_SEGMENT_STARTED} for one in begun)


class TestLocalIndexes:
    """The RemoteIndexCache holds indexes of remote segments on the broker's disk."""

    def test_those_of_an_expired_segment_are_removed(
        self,
        layout: MakeStorage,
        memory: ObjectStore,
        log: RollingLog,
        tmp_path: Path,
    ) -> None:
        settings = ManagerSettings(interval=0.02, delete_delay_ms=0, warmed_segments=4)
        with (
            managing(layout(memory), source_of(log), name="one") as leader,
            RemoteIndexCache(layout(memory), tmp_path) as cache,
            managing(
                IndexCachedStorage(layout(memory), cache), None, settings, name="two"
            ) as follower,
        ):
            leader.assign(ROLLING, epoch=0)
            wait_for(lambda: status_of(leader, ROLLING).end_offset == 20)
            follower.assign(ROLLING, Role.FOLLOWER, epoch=0)
            wait_for(lambda: cache.stats.loads == 4)
            leader.raise_start_offset(ROLLING, 20)
            wait_for(lambda: cache.stats.size == 0)

    def test_stale_ones_are_not_served_when_the_topic_was_made_again(
        self,
        layout: MakeStorage,
        memory: ObjectStore,
        log: RollingLog,
        tmp_path: Path,
    ) -> None:
        """A partition is deleted, and copied again with other segment bounds."""
        with RemoteIndexCache(layout(memory), tmp_path) as cache:
            cached = IndexCachedStorage(layout(memory), cache)
            with managing(cached, source_of(log)) as manager:
                manager.assign(ROLLING, epoch=0)
                wait_for(lambda: status_of(manager, ROLLING).end_offset == 20)
                topic = Tier(cached).topic("t")
                assert topic.scan().to_table()["offset"].to_pylist() == [*range(20)]
                manager.delete(ROLLING)
                wait_for(lambda: manager.status() == [])
                log.merge(0)
                manager.assign(ROLLING, epoch=1)
                wait_for(lambda: stored(layout(memory)) == [0, 10, 15])
                topic = Tier(cached).topic("t")
                assert topic.scan().to_table()["offset"].to_pylist() == [*range(20)]

    def test_a_follower_that_becomes_the_leader_has_them(
        self,
        layout: MakeStorage,
        memory: ObjectStore,
        log: RollingLog,
        tmp_path: Path,
    ) -> None:
        """It can locate and serve data from remote storage."""
        with managing(layout(memory), source_of(log), name="one") as leader:
            leader.assign(ROLLING, epoch=0)
            wait_for(lambda: status_of(leader, ROLLING).end_offset == 20)
        with (
            RemoteIndexCache(layout(memory), tmp_path) as cache,
            managing(
                IndexCachedStorage(layout(memory), cache), source_of(log), name="two"
            ) as manager,
        ):
            manager.assign(ROLLING, Role.FOLLOWER, epoch=0)
            wait_for(lambda: cache.stats.loads == QUICK.warmed_segments)
            manager.assign(ROLLING, epoch=1)
            grown(log, 1)
            wait_for(lambda: stored(layout(memory)) == [0, 5, 10, 15, 20])
            assert status_of(manager, ROLLING).role is Role.LEADER


class TestDeletions:
    """The lifecycle of a topic's deletion: marked, started, finished."""

    def test_the_events_come_in_their_order(
        self, layout: MakeStorage, memory: ObjectStore, log: RollingLog
    ) -> None:
        seen = list[PartitionDeleteState | None]()

        def note(_verb: str, _key: str) -> None:
            deletion = read_state(memory, ROLLING).deletion
            if not seen or seen[-1] is not deletion:
                seen.append(deletion)

        with managing(layout(Noted.over(memory, note)), source_of(log)) as manager:
            manager.assign(ROLLING, epoch=0)
            wait_for(lambda: status_of(manager, ROLLING).end_offset == 20)
            manager.delete(ROLLING)
            wait_for(lambda: manager.status() == [])
        marked, started, finished = PartitionDeleteState
        assert [one for one in seen if one] == [marked, started, finished]

    def test_marking_returns_before_the_segments_are_gone(
        self, layout: MakeStorage, memory: ObjectStore, log: RollingLog
    ) -> None:
        """Deletion is asynchronous: the mark alone is waited for."""
        with managing(layout(memory), source_of(log), name="one") as manager:
            manager.assign(ROLLING, epoch=0)
            wait_for(lambda: status_of(manager, ROLLING).end_offset == 20)
        led = LedPartition(Heartbeat(memory, "controller"), ROLLING)
        marked = PartitionDeleteState.DELETE_PARTITION_MARKED
        led.lead(1, "mark", lambda state: state.with_deletion(marked))
        assert stored(layout(memory)) == [0, 5, 10, 15]
        with managing(layout(memory), source_of(log), name="two") as manager:
            manager.assign(ROLLING, epoch=2)
            wait_for(lambda: stored(layout(memory)) == [])
            wait_for(lambda: manager.status() == [])

    def test_a_second_mark_changes_nothing(
        self, memory: ObjectStore, log: RollingLog
    ) -> None:
        """There can be multiple events when the controller fails over."""
        del log
        led = LedPartition(Heartbeat(memory, "controller"), ROLLING)
        marked = PartitionDeleteState.DELETE_PARTITION_MARKED
        led.lead(1, "mark", lambda state: state.with_deletion(marked))
        led.lead(1, "mark", lambda state: state.with_deletion(marked))
        assert read_state(memory, ROLLING).deletion is marked

    def test_a_marked_partition_takes_no_segments(
        self, layout: MakeStorage, memory: ObjectStore, log: RollingLog
    ) -> None:
        led = LedPartition(Heartbeat(memory, "controller"), ROLLING)
        marked = PartitionDeleteState.DELETE_PARTITION_MARKED
        led.lead(1, "mark", lambda state: state.with_deletion(marked))
        report = push(source_of(log), layout(memory), [ROLLING])
        (error,) = report.errors
        assert isinstance(error, FencedError)
        assert stored(layout(memory)) == []
        with pytest.raises(InvalidTransitionError):
            led.state.check_copied()

    def test_another_manager_finishes_what_one_that_died_has_marked(
        self, layout: MakeStorage, memory: ObjectStore, log: RollingLog
    ) -> None:
        with managing(layout(memory), source_of(log), name="one") as manager:
            manager.assign(ROLLING, epoch=0)
            wait_for(lambda: status_of(manager, ROLLING).end_offset == 20)
        led = LedPartition(Heartbeat(memory, "dead"), ROLLING)
        marked, started, _ = PartitionDeleteState
        led.lead(1, "mark", lambda state: state.with_deletion(marked))
        led.lead(1, "start", lambda state: state.with_deletion(started))
        layout(memory).delete_log_segment(layout(memory).list_segments(ROLLING)[0])
        bury(memory, "dead")
        with managing(layout(memory), name="next") as manager:
            assert manager.resume_deletions() == [ROLLING]
            wait_for(lambda: manager.status() == [])
        assert stored(layout(memory)) == []
        assert journalled_partitions(memory) == []

    def test_when_it_is_finished_neither_segments_nor_metadata_are_left(
        self, layout: MakeStorage, memory: ObjectStore, log: RollingLog
    ) -> None:
        with managing(layout(memory), source_of(log)) as manager:
            manager.assign(ROLLING, epoch=0)
            wait_for(lambda: status_of(manager, ROLLING).end_offset == 20)
            manager.delete(ROLLING)
            wait_for(lambda: manager.status() == [])
        assert [one.key for one in memory.list() if "/clock/" not in one.key] == []
        with pytest.raises(NotFoundError):
            layout(memory).list_segments(ROLLING)

    def test_a_manager_that_only_stops_deletes_nothing(
        self, layout: MakeStorage, memory: ObjectStore, log: RollingLog
    ) -> None:
        """StopReplica without delete: the tasks are cancelled, the data stay."""
        writes = list[str]()
        target = layout(Noted.over(memory, lambda verb, _: writes.append(verb), WRITES))
        with managing(target, source_of(log)) as manager:
            manager.assign(ROLLING, epoch=0)
            wait_for(lambda: status_of(manager, ROLLING).end_offset == 20)
            assert manager.revoke(ROLLING)
        assert stored(layout(memory)) == [0, 5, 10, 15]
