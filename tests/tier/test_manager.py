"""A manager copies what is closed, lets it expire, and hands over to the next one."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

import pytest
from typing_extensions import override

from support.log_directories import (
    RECORDED,
    check_records,
    partition_of,
    recorded,
    source_of,
)
from support.managers import (
    ROLLING,
    SOON,
    Held,
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
    ClosedError,
    FencedError,
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    RemoteStorageManager,
    UnsupportedOperationError,
)
from tieredfs.cache.cache import RemoteIndexCache
from tieredfs.cache.storage import IndexCachedStorage
from tieredfs.log.journal.heartbeat import Heartbeat
from tieredfs.log.journal.journal import (
    journalled_partitions,
    read_state,
)
from tieredfs.log.journal.led_partition import LedPartition
from tieredfs.log.journal.state import Leader
from tieredfs.log.manager.manager import RemoteLogManager
from tieredfs.log.manager.settings import ManagerSettings
from tieredfs.log.manager.status import Role
from tieredfs.log.partitions import select_partitions
from tieredfs.log.retention.plan import Retention
from tieredfs.objects import ObjectInfo
from tieredfs.states import PartitionDeleteState, SegmentState
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.stores import (
    WRITES,
    InterceptedStore,
    WatchedStore,
    scratch_store,
)

LAYOUTS = (SingleObject, KafkaLocal)
RECORDED_IN = [
    (topic, layout)
    for topic in RECORDED
    for layout in LAYOUTS
    if (topic, layout) != ("compacted", KafkaLocal)  # which stores no compacted logs
]
SMALL = partition_of()
MakeStorage = Callable[[ObjectStore], RemoteStorageManager]
_T = TypeVar("_T")


@pytest.fixture
def disk() -> Iterator[ObjectStore]:
    """A log directory."""
    with scratch_store() as store:
        yield store


class TestCopies:
    @pytest.mark.parametrize(("topic", "layout"), RECORDED_IN)
    def test_all_closed_segments_of_a_broker_are_copied_byte_for_byte(
        self, topic: str, layout: MakeStorage, memory: ObjectStore, tmp_path: Path
    ) -> None:
        source, target = source_of(recorded(topic, tmp_path)), layout(memory)
        partitions = select_partitions(source, [topic])
        with managing(target, source) as manager:
            for partition in partitions:
                manager.assign(partition, epoch=1)
            wait_for(lambda: all(one.end_offset for one in manager.status()))
            wait_for(lambda: not any(one.lag.segments for one in manager.status()))
            assert [one.error for one in manager.status()] == [None] * len(partitions)
        for partition in partitions:
            listed = source.list_segments(partition)
            closed = [one for one in listed if not source.is_active(one)]
            copies = target.list_segments(partition)
            assert len(copies) == len(closed)
            for one, copy in zip(closed, copies, strict=True):
                log = source.fetch_log_segment(one)
                assert target.fetch_log_segment(copy) == log
        check_records(target, topic)

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_a_segment_that_is_closed_later_is_copied_then(
        self, layout: MakeStorage, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        log, target = RollingLog(disk), layout(memory)
        grown(log, 2)
        with managing(target, KafkaLog(disk)) as manager:
            manager.assign(ROLLING, epoch=0)
            wait_for(lambda: stored(target) == [0, 5])
            log.produce("plain", 0, 5)
            manager.wake(ROLLING)
            log.roll()
            wait_for(lambda: stored(target) == [0, 5, 10])
            wait_for(lambda: status_of(manager, ROLLING).copied_segments == 3)
            status = status_of(manager, ROLLING)
            assert (status.role, status.epoch, status.failures) == (Role.LEADER, 0, 0)
            assert status.copied_bytes == sum(
                one.size or 0 for one in KafkaLog(disk).list_segments(ROLLING)[:3]
            )
            assert (status.earliest_offset, status.end_offset) == (0, 15)

    def test_an_open_transaction_holds_up_its_segment_and_what_follows(
        self, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        log, target = RollingLog(disk), SingleObject(memory)
        grown(log, 1)
        log.produce("data", 1, 5)
        log.roll()
        grown(log, 1)
        with managing(target, KafkaLog(disk)) as manager:
            manager.assign(ROLLING, epoch=0)
            wait_for(lambda: status_of(manager, ROLLING).lag.segments == 2)
            assert stored(target) == [0]
            log.produce("commit", 1, 0)  # in the active segment
            manager.wake(ROLLING)
            wait_for(lambda: stored(target) == [0, 5, 10])
            wait_for(lambda: status_of(manager, ROLLING).lag.segments == 0)

    def test_copies_are_made_in_order_each_after_its_entry(
        self, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        grown(RollingLog(disk), 4)
        seen: list[tuple[str, object]] = []
        store = Noted.over(memory, lambda _, key: seen.append(_said(memory, key)))
        with managing(SingleObject(store), KafkaLog(disk)) as manager:
            manager.assign(ROLLING, epoch=0)
            wait_for(lambda: status_of(manager, ROLLING).copied_segments == 4)
        copies = [said for what, said in seen if what == "copy"]
        started = SegmentState.COPY_SEGMENT_STARTED
        assert copies == [[(start, started)] for start in (0, 5, 10, 15)]
        assert read_state(memory, ROLLING).segments == {}

    def test_a_half_done_copy_of_an_earlier_leader_is_removed_first(
        self, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        grown(RollingLog(disk), 1)
        dying = WatchedStore.over(memory, WRITES, limit=5)
        with managing(KafkaLocal(dying), KafkaLog(disk), name="dead") as manager:
            manager.assign(ROLLING, epoch=1)
            wait_for(lambda: status_of(manager, ROLLING).error)
        left = [one.key for one in memory.list() if not is_own(one.key)]
        assert left
        assert stored(KafkaLocal(memory)) == []
        assert read_state(memory, ROLLING).copying
        bury(memory, "dead")
        # Nothing is copied in its place, so what it has left can only be removed.
        with managing(KafkaLocal(memory), name="next") as manager:
            manager.assign(ROLLING, epoch=1)
            wait_for(lambda: not read_state(memory, ROLLING).segments)
        assert [one.key for one in memory.list() if not is_own(one.key)] == []

    def test_a_half_done_copy_is_not_removed_while_its_writer_is_alive(
        self, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        """A copy that ends without an object that was removed would be incomplete."""
        grown(RollingLog(disk), 1)
        dying = WatchedStore.over(memory, WRITES, limit=5)
        with managing(KafkaLocal(dying), KafkaLog(disk), name="slow") as manager:
            manager.assign(ROLLING, epoch=1)
            wait_for(lambda: status_of(manager, ROLLING).error)
        deleted = list[str]()

        def note(verb: str, key: str) -> None:
            if verb == "delete" and not is_own(key):
                deleted.append(key)

        target = KafkaLocal(Noted.over(memory, note))
        with managing(target, KafkaLog(disk), name="next") as manager:
            manager.assign(ROLLING, epoch=2)
            wait_for(lambda: stored(target) == [0])
            wait_for(lambda: not read_state(memory, ROLLING).segments)
        assert deleted == []

    def test_a_copy_that_was_finished_and_not_noted_counts(
        self, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        grown(RollingLog(disk), 2)
        dying = WatchedStore.over(memory, WRITES, limit=3)  # after its first copy
        with managing(SingleObject(dying), KafkaLog(disk), name="dead") as manager:
            manager.assign(ROLLING, epoch=1)
            wait_for(lambda: status_of(manager, ROLLING).error)
        assert stored(SingleObject(memory)) == [0]
        assert len(read_state(memory, ROLLING).copying) == 1
        bury(memory, "dead")
        with managing(SingleObject(memory), KafkaLog(disk), name="next") as manager:
            manager.assign(ROLLING, epoch=1)
            wait_for(lambda: stored(SingleObject(memory)) == [0, 5])
            wait_for(lambda: not read_state(memory, ROLLING).segments)
            assert status_of(manager, ROLLING).copied_segments == 1

    @pytest.mark.parametrize("limit", range(6))
    def test_a_copy_that_lands_after_its_writer_was_deposed_is_not_deleted(
        self, limit: int, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        """Its successor dies while it removes what that copy has left."""
        log = RollingLog(disk)
        grown(log, 1)
        held = Held.over(memory, lambda _, key: not is_own(key))
        with managing(SingleObject(held), KafkaLog(disk), name="slow") as slow:
            slow.assign(ROLLING, epoch=1)
            assert held.reached.wait(SOON)
            dying = WatchedStore.over(memory, WRITES, limit=limit)
            with managing(SingleObject(dying), name="dead") as dead:
                dead.assign(ROLLING, epoch=2)
                wait_for(partial(_has_run, dead))
            bury(memory, "dead")
            held.release.set()
            wait_for(lambda: stored(SingleObject(memory)) == [0])
        log.delete_until(5)
        with managing(SingleObject(memory), KafkaLog(disk), name="next") as manager:
            manager.assign(ROLLING, epoch=3)
            wait_for(lambda: status_of(manager, ROLLING).end_offset == 5)
            manager.wake(ROLLING)
            grown(log, 1)
            wait_for(lambda: stored(SingleObject(memory)) == [0, 5])


class TestLeaders:
    def test_a_higher_epoch_takes_over_and_the_lower_one_changes_nothing_more(
        self, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        log = RollingLog(disk)
        grown(log, 1)
        watched = WatchedStore.over(memory, WRITES)
        with (
            managing(SingleObject(watched), KafkaLog(disk), name="old") as old,
            managing(SingleObject(memory), KafkaLog(disk), name="new") as new,
        ):
            old.assign(ROLLING, epoch=4)
            wait_for(lambda: stored(SingleObject(memory)) == [0])
            grown(log, 1)
            # Either may copy the second, but only the new one has the first to delete.
            new.assign(ROLLING, epoch=5, retention=Retention(start_offset=5))
            wait_for(lambda: _leader_of(memory) == "new")
            wait_for(lambda: stored(SingleObject(memory)) == [5])
            watched.calls = 0
            grown(log, 2)
            wait_for(lambda: stored(SingleObject(memory)) == [5, 10, 15])
            wait_for(lambda: status_of(old, ROLLING).error)
            assert isinstance(status_of(old, ROLLING).error, FencedError)
            assert _leader_of(memory) == "new"
            assert watched.calls <= 1  # the heartbeat
            assert status_of(old, ROLLING).copied_segments <= 2

    def test_one_of_the_same_epoch_waits_until_the_other_is_dead(
        self, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        log = RollingLog(disk)
        grown(log, 1)
        store, now = SetClock.over(memory), [1000.0]
        store.now = now
        source = KafkaLog(disk)
        with managing(SingleObject(store), source, name="second") as second:
            first = Heartbeat(store, "first")
            LedPartition(first, ROLLING).lead(7, "led", lambda state: state)
            second.assign(ROLLING)
            wait_for(lambda: isinstance(status_of(second, ROLLING).error, FencedError))
            assert status_of(second, ROLLING).failures == 0  # it stands by
            assert isinstance(status_of(second, ROLLING).error, FencedError)
            assert stored(SingleObject(memory)) == []
            now[0] += 61
            second.wake(ROLLING)
            wait_for(lambda: stored(SingleObject(memory)) == [0])
            leader = read_state(memory, ROLLING).leader
            assert leader == Leader("second", 7)

    def test_after_a_revocation_another_one_need_not_wait(
        self, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        log = RollingLog(disk)
        grown(log, 1)
        with (
            managing(SingleObject(memory), KafkaLog(disk), name="one") as one,
            managing(SingleObject(memory), KafkaLog(disk), name="two") as two,
        ):
            one.assign(ROLLING, epoch=3)
            wait_for(lambda: status_of(one, ROLLING).end_offset == 5)
            assert one.revoke(ROLLING)
            assert one.revoke(ROLLING)
            assert one.status() == []
            grown(log, 1)
            two.assign(ROLLING, epoch=3)
            wait_for(lambda: stored(SingleObject(memory)) == [0, 5])
            assert status_of(two, ROLLING).failures == 0
            assert two.revoke(ROLLING)
            one.assign(ROLLING, epoch=2)  # not the one that has let go last
            grown(log, 1)
            wait_for(lambda: isinstance(status_of(one, ROLLING).error, FencedError))
            assert stored(SingleObject(memory)) == [0, 5]

    def test_after_closing_another_one_need_not_wait(
        self, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        log = RollingLog(disk)
        grown(log, 1)
        with managing(SingleObject(memory), KafkaLog(disk), name="one") as one:
            one.assign(ROLLING, epoch=3)
            wait_for(lambda: status_of(one, ROLLING).end_offset == 5)
        assert one.close()
        with pytest.raises(ClosedError, match="the manager was closed"):
            one.assign(ROLLING)
        grown(log, 1)
        with managing(SingleObject(memory), KafkaLog(disk), name="two") as two:
            two.assign(ROLLING)
            wait_for(lambda: stored(SingleObject(memory)) == [0, 5])
            assert read_state(memory, ROLLING).leader == Leader("two", 3)

    def test_a_leader_that_becomes_a_follower_lets_go(
        self, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        log = RollingLog(disk)
        grown(log, 1)
        with (
            managing(SingleObject(memory), KafkaLog(disk), name="one") as one,
            managing(SingleObject(memory), KafkaLog(disk), name="two") as two,
        ):
            one.assign(ROLLING, epoch=3)
            wait_for(lambda: status_of(one, ROLLING).end_offset == 5)
            one.assign(ROLLING, Role.FOLLOWER, epoch=3)
            wait_for(lambda: _leader_of(memory) is None)
            grown(log, 1)
            two.assign(ROLLING)
            wait_for(lambda: stored(SingleObject(memory)) == [0, 5])
            wait_for(lambda: status_of(one, ROLLING).end_offset == 10)
            assert status_of(one, ROLLING).role is Role.FOLLOWER
            two.revoke(ROLLING)
            one.assign(ROLLING, epoch=4)
            grown(log, 1)
            wait_for(lambda: stored(SingleObject(memory)) == [0, 5, 10])
            wait_for(lambda: _leader_of(memory) == "one")

    def test_a_partition_that_is_assigned_again_keeps_its_counts(
        self, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        log = RollingLog(disk)
        grown(log, 2)
        with managing(SingleObject(memory), KafkaLog(disk)) as manager:
            manager.assign(ROLLING, epoch=1)
            wait_for(lambda: status_of(manager, ROLLING).copied_segments == 2)
            manager.assign(ROLLING, epoch=2)
            grown(log, 1)
            wait_for(lambda: status_of(manager, ROLLING).copied_segments == 3)

    def test_a_role_may_be_given_by_its_name(
        self, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        with managing(SingleObject(memory), KafkaLog(disk)) as manager:
            manager.assign(ROLLING, "follower", epoch=3)
            assert status_of(manager, ROLLING).role is Role.FOLLOWER

    @pytest.mark.parametrize(
        ("partition", "role", "epoch"),
        [
            ("t-0", Role.LEADER, 1),
            (None, Role.LEADER, 1),
            (ROLLING, "boss", 1),
            (ROLLING, Role.LEADER, -1),
            (ROLLING, Role.LEADER, 7.5),
            (ROLLING, Role.LEADER, "7"),
        ],
    )
    def test_what_is_no_assignment_is_refused(
        self,
        memory: ObjectStore,
        disk: ObjectStore,
        partition: object,
        role: object,
        epoch: object,
    ) -> None:
        with managing(SingleObject(memory), KafkaLog(disk)) as manager:
            with pytest.raises(InvalidArgumentError):
                manager.assign(partition, role, epoch=epoch)  # type: ignore[arg-type]
            assert manager.status() == []

    def test_a_lower_epoch_is_refused(
        self, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        with managing(SingleObject(memory), KafkaLog(disk)) as manager:
            manager.assign(ROLLING, epoch=3)
            with pytest.raises(InvalidArgumentError, match="leader epoch 2 is below 3"):
                manager.assign(ROLLING, epoch=2)
            with pytest.raises(InvalidArgumentError):
                manager.assign(ROLLING, Role.FOLLOWER, epoch=2)
            assert status_of(manager, ROLLING).epoch == 3

    def test_a_tier_that_cannot_be_written_is_refused(
        self, memory: ObjectStore
    ) -> None:
        with pytest.raises(UnsupportedOperationError, match="read only"):
            RemoteLogManager(KafkaLog(memory))


@pytest.mark.parametrize("layout", LAYOUTS)
class TestExpiry:
    def test_what_is_too_old_expires(
        self, layout: MakeStorage, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        grown(RollingLog(disk), 4)
        now = [0]
        target = layout(memory)
        with managing(target, KafkaLog(disk), now_ms=lambda: now[0]) as manager:
            manager.assign(ROLLING, epoch=0, retention=Retention(max_age_ms=100))
            wait_for(lambda: status_of(manager, ROLLING).copied_segments == 4)
            now[0] = 1109 + 100  # of the last record of the second segment
            wait_for(lambda: stored(target) == [0, 5, 10, 15])
            now[0] = 1009 + 100
            manager.wake(ROLLING)
            wait_for(lambda: stored(target) == [10, 15])
            wait_for(lambda: status_of(manager, ROLLING).earliest_offset == 10)
            status = status_of(manager, ROLLING)
            assert (status.deleted_segments, status.end_offset) == (2, 20)
            assert read_state(memory, ROLLING).log_start == 10

    def test_what_is_too_much_expires(
        self, layout: MakeStorage, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        grown(RollingLog(disk), 4)
        size = KafkaLog(disk).list_segments(ROLLING)[0].size or 0
        target = layout(memory)
        with managing(target, KafkaLog(disk)) as manager:
            retention = Retention(max_bytes=2 * size)
            manager.assign(ROLLING, epoch=0, retention=retention)
            wait_for(lambda: stored(target) == [10, 15])
            wait_for(lambda: status_of(manager, ROLLING).earliest_offset == 10)

    def test_what_is_before_a_raised_start_offset_expires(
        self, layout: MakeStorage, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        grown(RollingLog(disk), 4)
        target = layout(memory)
        with managing(target, KafkaLog(disk)) as manager:
            with pytest.raises(NotFoundError, match="among those that are led"):
                manager.raise_start_offset(ROLLING, 12)
            manager.assign(ROLLING, epoch=0)
            wait_for(lambda: stored(target) == [0, 5, 10, 15])
            manager.raise_start_offset(ROLLING, 12)
            wait_for(lambda: stored(target) == [10, 15])
            manager.raise_start_offset(ROLLING, 7)  # it does not go back
            wait_for(lambda: status_of(manager, ROLLING).earliest_offset == 10)

    def test_all_of_it_may_expire_and_nothing_comes_back(
        self, layout: MakeStorage, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        log, target = RollingLog(disk), layout(memory)
        grown(log, 3)
        with managing(target, KafkaLog(disk)) as manager:
            manager.assign(ROLLING, epoch=0, retention=Retention(max_bytes=0))
            wait_for(lambda: status_of(manager, ROLLING).deleted_segments == 3)
            wait_for(lambda: status_of(manager, ROLLING).earliest_offset == 15)
            assert status_of(manager, ROLLING).end_offset == 15
            for _ in range(2):
                manager.wake(ROLLING)
            grown(log, 1)
            wait_for(lambda: status_of(manager, ROLLING).deleted_segments == 4)
            assert status_of(manager, ROLLING).copied_segments == 4
            assert stored(target) == []

    def test_the_earliest_offset_advances_before_anything_is_deleted(
        self, layout: MakeStorage, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        grown(RollingLog(disk), 3)
        starts = list[int]()

        def note(verb: str, key: str) -> None:
            if verb == "delete" and not is_own(key):
                starts.append(read_state(memory, ROLLING).log_start)

        target = layout(Noted.over(memory, note))
        with managing(target, KafkaLog(disk)) as manager:
            retention = Retention(start_offset=10)
            manager.assign(ROLLING, epoch=0, retention=retention)
            wait_for(lambda: stored(target) == [10])
        assert set(starts) == {10}

    def test_what_has_expired_stays_for_the_readers_that_have_it_open(
        self, layout: MakeStorage, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        grown(RollingLog(disk), 2)
        now, target = [5000], layout(memory)
        settings = ManagerSettings(interval=0.02, threads=2, delete_delay_ms=1000)
        with managing(
            target, KafkaLog(disk), settings, now_ms=lambda: now[0]
        ) as manager:
            manager.assign(ROLLING, epoch=0, retention=Retention(start_offset=5))
            wait_for(lambda: status_of(manager, ROLLING).earliest_offset == 5)
            state = read_state(memory, ROLLING)
            tracked = [(one.start_offset, one.state) for one in state.segments.values()]
            assert tracked == [(0, SegmentState.DELETE_SEGMENT_STARTED)]
            now[0] = 5999
            manager.wake(ROLLING)
            manager.wake(ROLLING)
            assert stored(target) == [0, 5]
            now[0] = 6000
            manager.wake(ROLLING)
            wait_for(lambda: stored(target) == [5])
            wait_for(lambda: not read_state(memory, ROLLING).segments)

    def test_a_topic_that_only_the_tier_has_expires(
        self, layout: MakeStorage, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        grown(RollingLog(disk), 3)
        target = layout(memory)
        with managing(target, KafkaLog(disk)) as manager:
            manager.assign(ROLLING, epoch=0)
            wait_for(lambda: stored(target) == [0, 5, 10])
        with managing(target, name="two") as manager:
            manager.assign(ROLLING, retention=Retention(start_offset=5))
            wait_for(lambda: stored(target) == [5, 10])
            assert status_of(manager, ROLLING).lag.segments == 0


@pytest.mark.parametrize("layout", LAYOUTS)
class TestDeletions:
    def test_a_partition_is_marked_and_then_gone(
        self, layout: MakeStorage, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        log, target = RollingLog(disk), layout(memory)
        grown(log, 3)
        with managing(target, KafkaLog(disk)) as manager:
            manager.assign(ROLLING, epoch=2)
            wait_for(lambda: stored(target) == [0, 5, 10])
            manager.delete(ROLLING)
            wait_for(lambda: manager.status() == [])
            grown(log, 1)
            manager.wake(ROLLING)
        assert [one.key for one in memory.list() if "clock" not in one.key] == []

    def test_one_that_is_not_assigned_is_deleted_as_well(
        self, layout: MakeStorage, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        grown(RollingLog(disk), 2)
        target = layout(memory)
        with managing(target, KafkaLog(disk)) as manager:
            manager.assign(ROLLING, epoch=2)
            wait_for(lambda: stored(target) == [0, 5])
            manager.revoke(ROLLING)
            with pytest.raises(FencedError):
                manager.delete(ROLLING, epoch=1)
            manager.revoke(ROLLING)
            manager.delete(ROLLING)
            wait_for(lambda: manager.status() == [])
        assert stored(target) == []

    def test_nothing_is_copied_once_it_is_marked(
        self, layout: MakeStorage, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        """The mark is set while a copy goes on, which is the last one."""
        grown(RollingLog(disk), 5)
        held = Held.over(memory, lambda _, key: not is_own(key))
        target = layout(held)
        with managing(target, KafkaLog(disk)) as manager:
            manager.assign(ROLLING, epoch=2)
            assert held.reached.wait(SOON)
            manager.delete(ROLLING)
            marked = read_state(memory, ROLLING).deletion
            assert marked is PartitionDeleteState.DELETE_PARTITION_MARKED
            held.release.set()
            wait_for(lambda: manager.status() == [])
        assert stored(layout(memory)) == []
        assert journalled_partitions(memory) == []

    def test_a_deletion_that_died_is_finished_after_a_restart(
        self, layout: MakeStorage, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        grown(RollingLog(disk), 3)
        with managing(layout(memory), KafkaLog(disk), name="first") as manager:
            manager.assign(ROLLING, epoch=2)
            wait_for(lambda: stored(layout(memory)) == [0, 5, 10])
        for limit in range(2, 8):
            dying = WatchedStore.over(memory, WRITES, limit=limit)
            name = f"dead-{limit}"
            with managing(layout(dying), KafkaLog(disk), name=name) as dead:
                if limit == 2:
                    dead.delete(ROLLING)
                elif dead.resume_deletions() == []:
                    break
                wait_for(partial(_is_over, dead))
            bury(memory, name)
        with managing(layout(memory), KafkaLog(disk), name="last") as manager:
            manager.resume_deletions()
            wait_for(lambda: manager.status() == [])
        assert stored(layout(memory)) == []
        assert journalled_partitions(memory) == []

    def test_one_that_is_made_again_is_copied_anew(
        self, layout: MakeStorage, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        grown(RollingLog(disk), 2)
        target = layout(memory)
        with managing(target, KafkaLog(disk)) as manager:
            retention = Retention(start_offset=5)
            manager.assign(ROLLING, epoch=2, retention=retention)
            wait_for(lambda: stored(target) == [5])
            manager.delete(ROLLING)
            wait_for(lambda: manager.status() == [])
            manager.assign(ROLLING, epoch=0)
            wait_for(lambda: stored(target) == [0, 5])


class TestFollowers:
    def test_a_follower_learns_of_segments_and_writes_nothing(
        self, memory: ObjectStore, disk: ObjectStore
    ) -> None:
        log, target = RollingLog(disk), SingleObject(memory)
        grown(log, 3)
        watched = WatchedStore.over(memory, WRITES)
        with (
            managing(target, KafkaLog(disk), name="leader") as leader,
            managing(SingleObject(watched), name="follower") as follower,
        ):
            follower.assign(ROLLING, Role.FOLLOWER, epoch=0)
            wait_for(lambda: status_of(follower, ROLLING).earliest_offset == 0)
            leader.assign(ROLLING, epoch=0)
            wait_for(lambda: status_of(follower, ROLLING).end_offset == 15)
            leader.raise_start_offset(ROLLING, 10)
            wait_for(lambda: status_of(follower, ROLLING).earliest_offset == 10)
            leader.raise_start_offset(ROLLING, 15)
            wait_for(lambda: stored(target) == [])
            time.sleep(0.1)
            status = status_of(follower, ROLLING)
            assert (status.earliest_offset, status.end_offset) == (10, 15)
            assert (status.role, status.failures) == (Role.FOLLOWER, 0)
            with pytest.raises(NotFoundError):
                follower.raise_start_offset(ROLLING, 3)
        assert watched.calls == 0

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_it_caches_the_indexes_of_the_last_and_forgets_deleted_ones(
        self,
        layout: MakeStorage,
        memory: ObjectStore,
        disk: ObjectStore,
        tmp_path: Path,
    ) -> None:
        log, target = RollingLog(disk), layout(memory)
        grown(log, 4)
        reads = WatchedStore.over(memory, {"get", "get_range", "get_ranges"})
        with (
            managing(target, KafkaLog(disk), name="leader") as leader,
            RemoteIndexCache(layout(reads), tmp_path) as cache,
        ):
            leader.assign(ROLLING, epoch=0)
            wait_for(lambda: stored(target) == [0, 5, 10, 15])
            cached = IndexCachedStorage(layout(reads), cache)
            with managing(cached, name="follower") as follower:
                follower.assign(ROLLING, Role.FOLLOWER, epoch=0)
                wait_for(lambda: cache.stats.loads == 2)
                wait_for(lambda: status_of(follower, ROLLING).earliest_offset == 0)
                before, size = reads.calls, cache.stats.size
                for one in target.list_segments(ROLLING)[-2:]:
                    cached.fetch_all_indexes(one)
                assert reads.calls == before
                leader.raise_start_offset(ROLLING, 15)
                wait_for(lambda: stored(target) == [15])
                wait_for(lambda: 0 < cache.stats.size < size)


class SetClock(InterceptedStore):
    """A store whose objects have the modification times of a clock."""

    now: list[float]
    times: dict[str, float]

    @classmethod
    def over(cls, store: ObjectStore) -> Self:
        made = cls._onto(store)
        made.times = {}
        return made

    @override
    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        answer = execute()
        if verb == "put":
            self.times[keys[0]] = self.now[0]
        return answer

    @override
    def head(self, key: str) -> ObjectInfo:
        found = super().head(key)
        return replace(found, modified=int(self.times[key] * 1000))


def _leader_of(store: ObjectStore) -> str | None:
    leader = read_state(store, ROLLING).leader
    return None if leader is None else leader.owner


def _is_over(manager: RemoteLogManager) -> bool:
    """Return whether the one partition has failed, or is gone."""
    found = manager.status()
    return not found or found[0].error is not None


def _has_run(manager: RemoteLogManager) -> bool:
    status = status_of(manager, ROLLING)
    return status.error is not None or status.earliest_offset is not None


def _said(store: ObjectStore, key: str) -> tuple[str, object]:
    """Say what is being done: with a copy, what the journal says before it."""
    if is_own(key):
        return "other", None
    tracked = read_state(store, ROLLING).segments.values()
    return "copy", [(one.start_offset, one.state) for one in tracked]
