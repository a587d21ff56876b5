"""The journal of a partition: each entry is written once, and the last one counts."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers import Bucket
from support.stores import make_place, open_store
from tieredfs import (
    ClosedError,
    CorruptObjectError,
    FencedError,
    InvalidArgumentError,
    InvalidTransitionError,
    ObjectStore,
    SegmentId,
    StorageUnavailableError,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
from tieredfs.format.checksum import crc32c
from tieredfs.log.journal.entry import JournalEntry, encode_entry, parse_entry
from tieredfs.log.journal.heartbeat import Heartbeat
from tieredfs.log.journal.journal import PartitionJournal, journalled_partitions
from tieredfs.log.journal.led_partition import LedPartition
from tieredfs.log.journal.local_lock import LocalLock
from tieredfs.log.journal.state import Leader, PartitionState, TrackedSegment
from tieredfs.objects import ObjectInfo
from tieredfs.states import PartitionDeleteState, SegmentState
from tieredfs.testing.samples import PARTITIONS, sample
from tieredfs.testing.stores import WRITES, WatchedStore

PARTITION, OTHER, _ = PARTITIONS
EMPTY = PartitionState(PARTITION)
SEGMENT = sample(PARTITION, 0).metadata

_small = st.integers(0, 2**63 - 1)
_ids = st.binary(min_size=16, max_size=16).map(SegmentId.from_bytes)
_tracked = st.builds(
    TrackedSegment,
    id=_ids,
    start_offset=_small,
    state=st.sampled_from(SegmentState),
    since_ms=st.integers(),
)
_states = st.builds(
    PartitionState,
    partition=st.just(PARTITION),
    leader=st.none() | st.builds(Leader, owner=st.text(), epoch=st.integers()),
    log_start=_small,
    segments=st.lists(_tracked).map(lambda all_of: {one.id: one for one in all_of}),
    deletion=st.none() | st.sampled_from(PartitionDeleteState),
    leader_epoch=st.integers(),
)
_entries = st.builds(
    JournalEntry, number=_small, change=st.text(), writer=st.text(), state=_states
)


def journal_of(store: ObjectStore, writer: str = "one") -> PartitionJournal:
    return PartitionJournal(store, PARTITION, writer)


def sealed(document: dict[str, object]) -> bytes:
    """Return the bytes of an entry with these members, and their checksum."""
    rest = {name: member for name, member in document.items() if name != "crc32c"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return json.dumps({**rest, "crc32c": crc32c(text.encode())}).encode()


class TestEntries:
    @given(_entries)
    def test_an_entry_is_parsed_as_it_was_written(self, entry: JournalEntry) -> None:
        assert parse_entry(encode_entry(entry), PARTITION, "e") == entry

    @given(_entries, st.data())
    def test_one_that_lacks_a_member_is_corrupt(
        self, entry: JournalEntry, data: st.DataObject
    ) -> None:
        document = json.loads(encode_entry(entry))
        del document[data.draw(st.sampled_from(sorted(document)))]
        for damaged in (json.dumps(document).encode(), sealed(document)):
            if json.loads(damaged) != json.loads(encode_entry(entry)):
                with pytest.raises(CorruptObjectError, match="e: not an entry"):
                    parse_entry(damaged, PARTITION, "e")

    @given(_entries, st.data())
    def test_one_in_which_a_bit_has_changed_is_corrupt_or_says_the_same(
        self, entry: JournalEntry, data: st.DataObject
    ) -> None:
        damaged = bytearray(encode_entry(entry))
        bit = data.draw(st.integers(0, 8 * len(damaged) - 1))
        damaged[bit // 8] ^= 1 << bit % 8
        with suppress(CorruptObjectError, UnsupportedFormatError):
            assert parse_entry(bytes(damaged), PARTITION, "e") == entry

    @given(st.binary() | st.text().map(str.encode))
    def test_any_bytes_are_an_entry_or_a_typed_error(self, data: bytes) -> None:
        with pytest.raises(CorruptObjectError):
            parse_entry(data, PARTITION, "e")

    @given(_entries, st.data())
    def test_a_member_of_another_type_is_corrupt(
        self, entry: JournalEntry, data: st.DataObject
    ) -> None:
        document = json.loads(encode_entry(entry))
        members = ["change", "leader", "log_start", "number", "segments", "writer"]
        document[data.draw(st.sampled_from(members))] = data.draw(
            st.sampled_from([True, 1.5, [1], {"a": 1}, -1])
        )
        with pytest.raises(CorruptObjectError, match="e: not an entry"):
            parse_entry(sealed(document), PARTITION, "e")

    def test_one_of_a_newer_release_is_not_taken_for_damage(self) -> None:
        entry = JournalEntry(1, "made", "one", EMPTY)
        document = json.loads(encode_entry(entry)) | {"version": 2}
        with pytest.raises(UnsupportedFormatError, match="version 2"):
            parse_entry(json.dumps(document).encode(), PARTITION, "e")

    def test_a_member_that_is_added_later_is_ignored(self) -> None:
        entry = JournalEntry(1, "made", "one", EMPTY)
        document = json.loads(encode_entry(entry)) | {"colour": "red"}
        assert parse_entry(sealed(document), PARTITION, "e") == entry


class TestOneWriter:
    def test_a_partition_that_was_never_managed_has_none(
        self, memory: ObjectStore
    ) -> None:
        assert journal_of(memory).read() is None
        assert journalled_partitions(memory) == []

    def test_the_last_entry_is_read(self, memory: ObjectStore) -> None:
        journal, last = journal_of(memory), None
        for offset in range(100):
            last = journal.append(last, "moved", EMPTY.with_log_start(offset))
            assert journal_of(memory, "another").read() == last
        assert journalled_partitions(memory) == [PARTITION]
        assert journalled_partitions(memory, PARTITION.topic) == [PARTITION]
        assert journalled_partitions(memory, "orders-1") == []

    def test_a_history_is_kept_and_not_all_of_it(self, memory: ObjectStore) -> None:
        journal, last = journal_of(memory), None
        for offset in range(100):
            last = journal.append(last, "moved", EMPTY.with_log_start(offset))
            assert min(offset + 1, 16) <= len(list(memory.list())) <= 32

    def test_partitions_have_journals_of_their_own(self, memory: ObjectStore) -> None:
        journal_of(memory).append(None, "moved", EMPTY.with_log_start(3))
        assert PartitionJournal(memory, OTHER, "one").read() is None

    def test_once_cleared_it_begins_again(self, memory: ObjectStore) -> None:
        journal, last = journal_of(memory), None
        for offset in range(20):
            last = journal.append(last, "moved", EMPTY.with_log_start(offset))
        journal.clear()
        assert list(memory.list()) == []
        assert journal.append(None, "made", EMPTY).number == 1

    @pytest.mark.parametrize("limit", [0, 1])
    def test_clearing_that_dies_leaves_the_last_entry_or_none(
        self, memory: ObjectStore, limit: int
    ) -> None:
        last = None
        for _ in range(5):
            last = journal_of(memory).append(last, "moved", EMPTY)
        with pytest.raises(StorageUnavailableError):
            journal_of(WatchedStore.over(memory, WRITES, limit=limit)).clear()
        assert journal_of(memory).read() == last

    def test_a_name_that_is_not_a_number_is_ignored(self, memory: ObjectStore) -> None:
        last = journal_of(memory).append(None, "made", EMPTY)
        (entry,) = memory.list()
        for name in ("notes.txt", "9.json", f"{'٣' * 20}.json"):
            memory.put(f"{entry.key.rpartition('/')[0]}/{name}", b"{}", overwrite=True)
        assert journal_of(memory).read() == last

    def test_where_a_damaged_entry_is_deleted_the_one_before_it_counts(
        self, memory: ObjectStore
    ) -> None:
        first = journal_of(memory).append(None, "made", EMPTY.with_log_start(3))
        journal_of(memory).append(first, "moved", EMPTY.with_log_start(5))
        damaged = max(entry.key for entry in memory.list())
        memory.put(damaged, b"", overwrite=True)
        with pytest.raises(CorruptObjectError, match="if you delete it, the entry bef"):
            journal_of(memory).read()
        memory.delete([damaged])
        assert journal_of(memory).read() == first
        second = journal_of(memory).append(first, "moved", EMPTY.with_log_start(7))
        assert journal_of(memory).read() == second

    def test_an_entry_under_another_number_is_corrupt(
        self, memory: ObjectStore
    ) -> None:
        journal_of(memory).append(None, "made", EMPTY)
        (entry,) = memory.list()
        moved = entry.key.replace("1.json", "2.json")
        memory.copy(entry.key, moved)
        with pytest.raises(CorruptObjectError, match=r"2\.json: it is entry 1"):
            journal_of(memory).read()


KINDS = ("local", "memory", "s3", "gcs", "azure")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    """An empty place of each kind of store."""
    return make_place(request.param, request, tmp_path)


class TestTwoWriters:
    def test_of_two_that_have_read_the_same_entry_one_is_refused(
        self, place: Bucket
    ) -> None:
        one, two = journal_of(open_store(place)), journal_of(open_store(place), "two")
        first = one.append(None, "made", EMPTY)
        assert two.read() == first
        second = one.append(first, "moved", EMPTY.with_log_start(7))
        with pytest.raises(FencedError, match="orders-0: another manager"):
            two.append(first, "moved", EMPTY.with_log_start(5))
        assert two.read() == second
        third = two.append(second, "moved", EMPTY.with_log_start(8))
        assert one.read() == third

    @pytest.mark.parametrize("count", [16, 40, 47])
    def test_one_that_stood_still_is_refused_also_where_the_next_entry_was_deleted(
        self, place: Bucket, count: int
    ) -> None:
        """So many entries later, the one that it would write may be free again."""
        one, two = journal_of(open_store(place)), journal_of(open_store(place), "two")
        seen = [None, one.append(None, "made", EMPTY)]
        last = seen[-1]
        for offset in range(count):
            last = two.append(last, "moved", EMPTY.with_log_start(offset))
        for known in seen:
            before = [entry.key for entry in open_store(place).list()]
            with pytest.raises(FencedError, match="orders-0: another manager"):
                one.append(known, "moved", EMPTY.with_log_start(1000))
            assert [entry.key for entry in open_store(place).list()] == before
        assert two.read() == last

    def test_one_that_stood_still_is_refused_also_where_the_journal_was_deleted(
        self, place: Bucket
    ) -> None:
        one, two = journal_of(open_store(place)), journal_of(open_store(place), "two")
        first = one.append(None, "made", EMPTY)
        two.append(two.read(), "moved", EMPTY)
        two.clear()
        with pytest.raises(FencedError, match="orders-0: another manager"):
            one.append(first, "moved", EMPTY.with_log_start(1000))
        assert list(open_store(place).list()) == []

    def test_one_whose_entry_is_followed_before_it_looks_is_not_refused(
        self, memory: ObjectStore
    ) -> None:
        """The other one has read it: then it was in charge when it wrote."""
        two = journal_of(memory, "two")

        class Followed(WatchedStore):
            def list(
                self, prefix: str = "", *, start_after: str = "", delimiter: str = ""
            ) -> Iterator[ObjectInfo]:
                two.append(two.read(), "moved", EMPTY.with_log_start(8))
                return super().list(
                    prefix, start_after=start_after, delimiter=delimiter
                )

        one = journal_of(Followed.over(memory, ()))
        assert one.append(None, "made", EMPTY).number == 1
        last = two.read()
        assert last is not None
        assert (last.number, last.state.log_start) == (2, 8)

    def test_it_is_found_in_no_listing_of_segments(self, place: Bucket) -> None:
        journal_of(open_store(place)).append(None, "made", EMPTY)
        assert journalled_partitions(open_store(place)) == [PARTITION]


class Careless(WatchedStore):
    """A store that cannot create objects exclusively."""

    def put(
        self, key: str, data: bytes | bytearray | memoryview, *, overwrite: bool
    ) -> None:
        if not overwrite:
            raise UnsupportedOperationError(f"cannot create {key} exclusively")
        super().put(key, data, overwrite=overwrite)


def test_a_store_that_cannot_tell_two_writers_apart_needs_a_single_one(
    memory: ObjectStore,
) -> None:
    store = Careless.over(memory, ())
    with pytest.raises(UnsupportedOperationError, match="--single-writer"):
        journal_of(store).append(None, "made", EMPTY)
    alone = PartitionJournal(store, PARTITION, "one", is_only_writer=True)
    last = alone.append(None, "made", EMPTY)
    assert alone.read() == last


class Clocked(WatchedStore):
    """A store whose objects have the modification times of a clock."""

    seconds: float | None
    times: dict[str, float | None]

    def put(
        self, key: str, data: bytes | bytearray | memoryview, *, overwrite: bool
    ) -> None:
        super().put(key, data, overwrite=overwrite)
        self.times[key] = self.seconds

    def head(self, key: str) -> ObjectInfo:
        found, at = super().head(key), self.times[key]
        modified = None if at is None else int(at * 1000)
        return ObjectInfo(key, found.size, found.version, modified)


@pytest.fixture
def clocked(memory: ObjectStore) -> Clocked:
    """A store with a clock that a test sets."""
    made = Clocked.over(memory, ())
    made.seconds, made.times = 1000.0, {}
    return made


def led(store: ObjectStore, owner: str) -> LedPartition:
    return LedPartition(Heartbeat(store, owner, clock=lambda: 0.0), PARTITION)


def unchanged(state: PartitionState) -> PartitionState:
    return state


class TestLeaders:
    def test_one_that_is_alive_is_not_replaced(self, clocked: Clocked) -> None:
        led(clocked, "one").lead(3, "led", unchanged)
        clocked.seconds = 1060.0
        with pytest.raises(FencedError, match="one is in charge, with leader epoch 3"):
            led(clocked, "two").lead(3, "led", unchanged)
        with pytest.raises(FencedError):
            led(clocked, "two").lead(None, "led", unchanged)
        assert led(clocked, "two").state.leader == Leader("one", 3)

    def test_one_that_has_died_is_replaced(self, clocked: Clocked) -> None:
        led(clocked, "one").lead(3, "led", unchanged)
        clocked.seconds = 1060.1
        two = led(clocked, "two")
        two.lead(3, "led", unchanged)
        assert two.state.leader == Leader("two", 3)

    def test_what_one_that_died_has_left_is_removed_by_the_next(
        self, clocked: Clocked
    ) -> None:
        for partition in PARTITIONS:
            one = LedPartition(Heartbeat(clocked, "one"), partition)
            one.lead(3, "led", unchanged)
        clocked.seconds = 1060.1
        clocked.verbs = frozenset({"delete"})
        heartbeat = Heartbeat(clocked, "two", clock=lambda: 0.0)
        for partition in PARTITIONS:
            LedPartition(heartbeat, partition).lead(3, "led", unchanged)
        alive = "@tieredfs/manager/alive/"
        assert [entry.key for entry in clocked.list(alive)] == [f"{alive}two"]
        assert clocked.calls == 1

    def test_one_that_was_only_silent_says_again_that_it_is_alive(
        self, clocked: Clocked
    ) -> None:
        seconds = [0.0]
        one = Heartbeat(clocked, "one", clock=lambda: seconds[0])
        for partition in (PARTITION, OTHER):
            LedPartition(one, partition).lead(3, "led", unchanged)
        clocked.seconds = 1060.1
        led(clocked, "two").lead(3, "led", unchanged)
        seconds[0] = 60.0
        one.beat()
        two = LedPartition(Heartbeat(clocked, "two", clock=lambda: 0.0), OTHER)
        with pytest.raises(FencedError, match="one is in charge"):
            two.lead(3, "led", unchanged)

    def test_the_heartbeat_of_one_that_a_higher_epoch_replaces_stays(
        self, clocked: Clocked
    ) -> None:
        led(clocked, "one").lead(3, "led", unchanged)
        led(clocked, "two").lead(4, "led", unchanged)
        assert len(list(clocked.list("@tieredfs/manager/alive/"))) == 2

    def test_one_that_has_ended_is_replaced_immediately(self, clocked: Clocked) -> None:
        heartbeat = Heartbeat(clocked, "one")
        LedPartition(heartbeat, PARTITION).lead(3, "led", unchanged)
        heartbeat.end()
        led(clocked, "two").lead(None, "led", unchanged)
        assert led(clocked, "two").state.leader == Leader("two", 3)

    def test_one_that_has_ended_changes_nothing_more(self, clocked: Clocked) -> None:
        heartbeat = Heartbeat(clocked, "one")
        one = LedPartition(heartbeat, PARTITION)
        one.lead(3, "led", unchanged)
        heartbeat.end()
        for act in (
            lambda: one.change("moved", unchanged),
            lambda: one.lead(4, "led", unchanged),
            lambda: heartbeat.is_dead("another"),
        ):
            clocked.put("@tieredfs/manager/alive/another", b"", overwrite=True)
            with pytest.raises(ClosedError, match="manager one has ended"):
                act()
        assert heartbeat.is_dead("one")

    def test_a_higher_epoch_replaces_one_that_is_alive(self, clocked: Clocked) -> None:
        one, two = led(clocked, "one"), led(clocked, "two")
        one.lead(3, "led", unchanged)
        two.read()
        two.lead(4, "led", unchanged)
        with pytest.raises(FencedError):
            one.change("moved", lambda state: state.with_log_start(9))
        one.read()
        assert one.state == two.state
        with pytest.raises(FencedError):
            one.lead(3, "led", unchanged)

    def test_a_lower_epoch_is_refused_though_the_leader_has_died(
        self, clocked: Clocked
    ) -> None:
        led(clocked, "one").lead(3, "led", unchanged)
        clocked.seconds = 5000.0
        with pytest.raises(FencedError):
            led(clocked, "two").lead(2, "led", unchanged)

    def test_where_no_times_are_known_a_leader_is_taken_to_be_alive(
        self, clocked: Clocked
    ) -> None:
        clocked.seconds = None
        led(clocked, "one").lead(3, "led", unchanged)
        with pytest.raises(FencedError):
            led(clocked, "two").lead(3, "led", unchanged)
        two = Heartbeat(clocked, "two", clock=lambda: 0.0)
        alone = LedPartition(two, PARTITION, is_only_writer=True)
        alone.lead(3, "led", unchanged)
        assert alone.state.leader == Leader("two", 3)

    def test_its_own_epoch_cannot_go_back(self, clocked: Clocked) -> None:
        one = led(clocked, "one")
        one.lead(3, "led", unchanged)
        one.lead(4, "led", unchanged)
        with pytest.raises(InvalidArgumentError, match="3 is below 4"):
            one.lead(3, "led", unchanged)

    def test_one_that_lets_go_is_replaced(self, clocked: Clocked) -> None:
        one = led(clocked, "one")
        one.lead(3, "led", unchanged)
        one.change("released", PartitionState.released)
        with pytest.raises(FencedError, match="before had leader epoch 3; this one ha"):
            led(clocked, "two").lead(2, "led", unchanged)
        led(clocked, "two").lead(None, "led", unchanged)
        assert led(clocked, "three").state.leader == Leader("two", 3)

    def test_a_heartbeat_is_written_three_times_in_a_lifetime(
        self, memory: ObjectStore
    ) -> None:
        store, seconds = WatchedStore.over(memory, WRITES), iter(range(0, 600, 5))
        heartbeat = Heartbeat(store, "one", clock=lambda: float(next(seconds)))
        for _ in range(120):
            heartbeat.beat()
        assert store.calls == 30


class TestAHeartbeatThatIsKept:
    def test_it_is_written_again_until_the_end(self, memory: ObjectStore) -> None:
        store = WatchedStore.over(memory, {"put"})
        heartbeat = Heartbeat(store, "one", lifetime=0.12)
        with heartbeat.kept():
            time.sleep(0.2)
            assert store.calls == 0  # it has not begun
            heartbeat.beat()
            _wait_until(lambda: store.calls >= 4)
        assert list(memory.list()) == []
        written = store.calls
        time.sleep(0.2)
        assert store.calls == written

    def test_a_store_that_fails_may_recover(self, memory: ObjectStore) -> None:
        store = WatchedStore.over(memory, {"put"})
        heartbeat = Heartbeat(store, "one", lifetime=0.12)
        with heartbeat.kept():
            heartbeat.beat()
            store.limit = 0
            failed = store.calls
            _wait_until(lambda: store.calls >= failed + 2)
            store.limit = None
            recovered = store.calls
            _wait_until(lambda: store.calls >= recovered + 2)

    def test_after_an_error_it_ends_and_after_an_interrupt_it_asks_nothing(
        self, memory: ObjectStore
    ) -> None:
        for error, left in ((ValueError, 0), (KeyboardInterrupt, 1)):
            heartbeat = Heartbeat(memory, "one")
            heartbeat.beat()
            with pytest.raises(error), heartbeat.kept():
                raise error
            assert len(list(memory.list())) == left


def _wait_until(is_true: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < until
        time.sleep(0.01)


class TestStates:
    def test_what_is_copied_or_deleted_is_known_until_it_is_done(self) -> None:
        copying = EMPTY.with_segments([SEGMENT], SegmentState.COPY_SEGMENT_STARTED, 5)
        (tracked,) = copying.segments.values()
        assert tracked == TrackedSegment(
            SEGMENT.id, SEGMENT.start_offset, SegmentState.COPY_SEGMENT_STARTED, 5
        )
        done = copying.with_segments([SEGMENT], SegmentState.COPY_SEGMENT_FINISHED, 6)
        assert done == EMPTY
        deleting = done.with_segments([SEGMENT], SegmentState.DELETE_SEGMENT_STARTED, 7)
        assert deleting.to_delete == {SEGMENT.id}
        assert deleting.with_deleted([]) == deleting
        assert deleting.with_deleted([SEGMENT.id]) == EMPTY

    def test_a_step_that_is_repeated_keeps_its_time(self) -> None:
        started = SegmentState.DELETE_SEGMENT_STARTED
        once = EMPTY.with_segments([SEGMENT], started, 5)
        assert once.with_segments([SEGMENT], started, 9) == once

    def test_a_wrong_step_is_refused_by_name(self) -> None:
        def step(state: SegmentState) -> PartitionState:
            return EMPTY.with_segments([SEGMENT], state, 5)

        deleting = step(SegmentState.DELETE_SEGMENT_STARTED)
        for following in (
            SegmentState.COPY_SEGMENT_STARTED,
            SegmentState.COPY_SEGMENT_FINISHED,
        ):
            with pytest.raises(InvalidTransitionError, match=str(SEGMENT.id)):
                deleting.with_segments([SEGMENT], following, 6)

    def test_the_earliest_offset_never_goes_back(self) -> None:
        assert EMPTY.with_log_start(7).with_log_start(3).log_start == 7

    def test_nothing_is_copied_to_a_partition_that_is_being_deleted(self) -> None:
        EMPTY.check_copied()
        marked = EMPTY.with_deletion(PartitionDeleteState.DELETE_PARTITION_MARKED)
        with pytest.raises(InvalidTransitionError, match="DELETE_PARTITION_MARKED"):
            marked.check_copied()


def test_a_manager_that_ends_lets_go_of_its_lock_also_where_the_store_fails(
    memory: ObjectStore, tmp_path: Path
) -> None:
    failing = WatchedStore.over(memory, {"delete"}, limit=0)
    heartbeat = Heartbeat(failing, "one", lock=LocalLock(tmp_path, "one"))
    other = LocalLock(tmp_path, "two")
    heartbeat.beat()
    assert not other.is_dead("one")
    with pytest.raises(StorageUnavailableError):
        heartbeat.end()
    assert not (tmp_path / "one.lock").exists()
