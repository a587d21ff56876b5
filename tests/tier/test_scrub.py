"""What is left over is found, and removed only if it is surely of no use to anyone."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta

import pytest

from tieredfs import (
    CorruptObjectError,
    Leftover,
    ObjectStore,
    PermissionDeniedError,
    RemoteStorageManager,
    StorageUnavailableError,
    TopicIdPartition,
    UnsupportedOperationError,
)
from tieredfs.log.scrub.scrub import LeftoverState, ScrubReport, scrub
from tieredfs.objects import ObjectInfo
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.faults import Effect, FaultPlan, FaultyStore, StoreFault
from tieredfs.testing.samples import PARTITIONS, sample
from tieredfs.testing.stores import WRITES, WatchedStore

FIRST, OTHER, _ = PARTITIONS
DAY = timedelta(days=1)
SECONDS = 1_800_000_000.0
"""The time of the tests, long after the clock of the store."""


def dying(store: ObjectStore, limit: int) -> WatchedStore:
    """Return a store whose user dies after so many writes."""
    return WatchedStore.over(store, WRITES, limit=limit)


def keys(store: ObjectStore) -> list[str]:
    return [entry.key for entry in store.list()]


def half(store: ObjectStore, number: int = 0, limit: int = 2) -> set[str]:
    """Let a copy die; return the keys that it has left."""
    one, before = sample(FIRST, number), set(keys(store))
    with suppress(StorageUnavailableError):
        KafkaLocal(dying(store, limit)).copy_log_segment(one.metadata, one.data)
    return set(keys(store)) - before


def whole(storage: RemoteStorageManager, number: int = 0) -> None:
    one = sample(FIRST, number)
    storage.copy_log_segment(one.metadata, one.data)


def states(report: ScrubReport) -> dict[str, LeftoverState]:
    return {one.leftover.key: one.state for one in report.leftovers}


def scrubbed(
    storage: RemoteStorageManager,
    *,
    now: float = SECONDS,
    older_than: timedelta = DAY,
    delete: bool = True,
) -> ScrubReport:
    partitions = storage.leftover_partitions()
    return scrub(
        storage, partitions, delete=delete, older_than=older_than, now=lambda: now
    )


class Clocked(WatchedStore):
    """A store whose objects have the modification times that a test chooses."""

    times: dict[str, int | None]

    def head(self, key: str) -> ObjectInfo:
        found = super().head(key)
        modified = self.times.get(key, found.modified)
        return ObjectInfo(key, found.size, found.version, modified)


def clocked(store: ObjectStore) -> Clocked:
    made = Clocked.over(store, ())
    made.times = {}
    return made


def test_a_report_deletes_nothing(memory: ObjectStore) -> None:
    whole(KafkaLocal(memory), 1)
    left = half(memory)
    before = keys(memory)
    report = scrubbed(KafkaLocal(memory), delete=False)
    assert states(report) == dict.fromkeys(left, LeftoverState.FOUND)
    assert not report.is_clean
    assert report.uploads is None
    assert keys(memory) == before
    for one in report.leftovers:
        assert one.partition == FIRST
        assert one.leftover.size == memory.head(one.leftover.key).size
        assert one.modified == memory.head(one.leftover.key).modified is not None


def test_what_is_old_is_deleted_and_whole_segments_stay(memory: ObjectStore) -> None:
    whole(KafkaLocal(memory), 1)
    before = keys(memory)
    left = half(memory)
    report = scrubbed(KafkaLocal(memory))
    assert states(report) == dict.fromkeys(left, LeftoverState.DELETED)
    assert report.is_clean
    assert keys(memory) == before
    assert scrubbed(KafkaLocal(memory)).leftovers == ()


def test_what_is_young_may_be_a_copy_in_progress(memory: ObjectStore) -> None:
    left = half(memory)
    newest = max(memory.head(key).modified or 0 for key in left)
    storage = KafkaLocal(memory)
    at = newest / 1000 + DAY.total_seconds()
    for now in (0.0, at - 10):
        report = scrubbed(storage, now=now)
        assert states(report) == dict.fromkeys(left, LeftoverState.KEPT)
    assert set(keys(memory)) == left
    assert scrubbed(storage, now=at + 10).is_clean
    assert keys(memory) == []


def test_an_object_is_as_young_as_the_youngest_of_its_segment(
    memory: ObjectStore,
) -> None:
    """A copy may have begun long ago, and be sending a large log."""
    store = clocked(memory)
    left = sorted(half(memory))
    store.times[left[0]] = int(SECONDS * 1000)
    assert set(states(scrubbed(KafkaLocal(store))).values()) == {LeftoverState.KEPT}
    assert sorted(keys(memory)) == left


def test_an_unknown_age_is_young_unless_all_are_to_be_deleted(
    memory: ObjectStore,
) -> None:
    store = clocked(memory)
    left = half(memory)
    store.times.update(dict.fromkeys(left))
    report = scrubbed(KafkaLocal(store))
    assert states(report) == dict.fromkeys(left, LeftoverState.KEPT)
    assert {one.modified for one in report.leftovers} == {None}
    assert scrubbed(KafkaLocal(store), older_than=timedelta()).is_clean
    assert keys(memory) == []


@pytest.mark.parametrize("changed", ["completed", "rewritten"])
def test_what_a_copy_touches_meanwhile_stays(memory: ObjectStore, changed: str) -> None:
    left = half(memory)
    first = min(left)

    class Touched(KafkaLocal):
        listings = 0

        def scrub(self, partition: TopicIdPartition) -> Iterator[Leftover]:
            self.listings += 1
            if self.listings == 2 and changed == "completed":
                whole(KafkaLocal(memory))
            elif self.listings == 2:
                memory.put(first, b"longer than it was before" * 9, overwrite=True)
            return super().scrub(partition)

    report = scrubbed(Touched(memory))
    found = states(report)
    assert found[first] is LeftoverState.KEPT
    if changed == "completed":
        assert set(found.values()) == {LeftoverState.KEPT}
        assert len(KafkaLocal(memory).list_segments(FIRST)) == 1
    else:
        assert set(keys(memory)) == left


class Racing(Clocked):
    """A store where a function is called before the first deletion."""

    race: Callable[[], object]

    def delete(self, keys: Iterable[str]) -> None:
        race, self.race = self.race, lambda: None
        race()
        super().delete(keys)


def racing(store: ObjectStore, race: Callable[[], object]) -> Racing:
    made = Racing.over(store, ())
    made.times, made.race = {}, race
    return made


def test_what_a_copy_adopts_while_others_are_deleted_stays(memory: ObjectStore) -> None:
    """Those of a group are looked up once more just before they are deleted."""
    left = sorted(key for number in range(20) for key in half(memory, number))
    adopted = {
        key for key in left if key.partition(".")[0] == left[-1].partition(".")[0]
    }

    def adopt() -> None:
        memory.put(left[-1], bytes(memory.get(left[-1])), overwrite=True)
        store.times[left[-1]] = int(SECONDS * 1000)

    store = racing(memory, adopt)
    found = states(scrubbed(KafkaLocal(store)))
    assert {key for key in left if found[key] is LeftoverState.KEPT} == adopted
    assert set(keys(memory)) == adopted


def test_a_copy_that_ends_while_its_objects_are_deleted_is_reported(
    memory: ObjectStore,
) -> None:
    """No store deletes an object only if it is unchanged."""

    def end() -> None:
        store.times.clear()
        whole(KafkaLocal(memory))

    left = half(memory)
    old = half(memory, 1)
    store = racing(memory, end)
    now = time.time()
    store.times.update(dict.fromkeys(left | old, int((now - 2 * 86_400) * 1000)))
    report = scrubbed(KafkaLocal(store), now=now)
    assert states(report) == dict.fromkeys(left | old, LeftoverState.DELETED)
    assert [type(error) for error in report.errors] == [CorruptObjectError]
    assert min(left).rpartition(".")[0] in str(report.errors[0])
    assert "copy it again" in str(report.errors[0])
    assert not report.is_clean


def test_ages_are_those_by_the_clock_of_the_store(
    memory: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = half(memory)
    late = time.time() + 25 * 3600
    monkeypatch.setattr(time, "time", lambda: late)
    report = scrub(KafkaLocal(memory), [FIRST], delete=True)
    assert states(report) == dict.fromkeys(left, LeftoverState.KEPT)
    assert set(keys(memory)) == left


def test_a_report_asks_for_no_time(memory: ObjectStore) -> None:
    half(memory)
    store = WatchedStore.over(memory, WRITES)
    assert scrub(KafkaLocal(store), [FIRST]).leftovers
    assert store.calls == 0


class Uploads(Clocked):
    """A store that notes from which age on uploads are to be aborted."""

    ages: list[timedelta]

    def abort_uploads(self, older_than: timedelta = DAY) -> Sequence[str]:
        self.ages.append(older_than)
        return ["upload"]


class Timeless(Uploads):
    """A store that does not report when objects were written."""

    def head(self, key: str) -> ObjectInfo:
        found = super().head(key)
        return ObjectInfo(key, found.size, found.version)


@pytest.mark.parametrize("behind", [-25, 0, 25])
def test_uploads_are_as_old_as_by_the_clock_of_the_store(
    memory: ObjectStore, behind: int
) -> None:
    store = Uploads.over(memory, ())
    store.times, store.ages = {}, []
    skew = timedelta(hours=behind)
    at = time.time() - skew.total_seconds()
    report = scrub(KafkaLocal(store), [], uploads=True, now=lambda: at)
    assert report.uploads == ("upload",)
    (age,) = store.ages
    assert abs(age - DAY - skew) < timedelta(minutes=5)


def test_nothing_is_old_where_the_store_does_not_report_the_time(
    memory: ObjectStore,
) -> None:
    left = half(memory)
    store = Timeless.over(memory, ())
    store.times, store.ages = {}, []
    report = scrub(KafkaLocal(store), [FIRST], delete=True, uploads=True)
    assert states(report) == dict.fromkeys(left, LeftoverState.KEPT)
    assert (report.uploads, store.ages) == ((), [])
    none = timedelta()
    report = scrub(
        KafkaLocal(store), [FIRST], delete=True, uploads=True, older_than=none
    )
    assert report.is_clean
    assert report.uploads == ("upload",)
    assert store.ages == [none]


def test_a_log_is_kept_if_it_may_be_the_only_copy_of_its_records(
    memory: ObjectStore,
) -> None:
    """A segment that has lost an index is left over like one whose copy has died."""
    storage = KafkaLocal(memory)
    whole(storage, 0)
    (gone,) = [key for key in keys(memory) if key.endswith(".timeindex")]
    memory.delete([gone])
    left = set(keys(memory))
    report = scrubbed(storage, older_than=timedelta())
    assert states(report) == dict.fromkeys(left, LeftoverState.ONLY_COPY)
    assert set(keys(memory)) == left
    again = sample(FIRST, 0, "another copy of these offsets")
    storage.copy_log_segment(again.metadata, again.data)
    assert scrubbed(storage).is_clean
    assert left.isdisjoint(keys(memory))
    assert len(storage.list_segments(FIRST)) == 1


def test_a_damaged_log_without_an_index_is_kept(memory: ObjectStore) -> None:
    storage = KafkaLocal(memory)
    whole(storage, 0)
    for key in keys(memory):
        if key.endswith(".timeindex"):
            memory.delete([key])
        if key.endswith(".log"):
            memory.put(key, b"not a log" * 10, overwrite=True)
    again = sample(FIRST, 0, "again")
    storage.copy_log_segment(again.metadata, again.data)
    assert set(states(scrubbed(storage)).values()) == {LeftoverState.ONLY_COPY}


def test_a_damaged_segment_holds_nothing_and_does_not_end_the_scrub(
    memory: ObjectStore,
) -> None:
    storage = KafkaLocal(memory)
    whole(storage, 0)
    for key in keys(memory):
        if key.endswith(".timeindex"):
            memory.delete([key])
    left = set(keys(memory))
    again = sample(FIRST, 0, "another copy of these offsets")
    storage.copy_log_segment(again.metadata, again.data)
    damaged = set(keys(memory)) - left
    for key in damaged:
        if key.endswith(".log"):
            memory.put(key, b"not a log" * 10, overwrite=True)
    half(memory, 1, limit=1)
    report = scrubbed(storage)
    found = states(report)
    assert {key: found[key] for key in left} == dict.fromkeys(
        left, LeftoverState.ONLY_COPY
    )
    assert {state for key, state in found.items() if key not in left} == {
        LeftoverState.DELETED
    }
    assert set(keys(memory)) == left | damaged
    assert report.errors == ()


def test_what_an_append_staged_is_found_where_no_partition_is_listed(
    memory: ObjectStore,
) -> None:
    one = sample(FIRST, 0)
    with pytest.raises(StorageUnavailableError):
        SingleObject(dying(memory, 1)).append_log_segment(one.metadata, one.data)
    storage = SingleObject(memory)
    assert storage.list_partitions() == []
    assert storage.leftover_partitions() == [FIRST]
    assert storage.leftover_partitions(FIRST.topic) == [FIRST]
    assert storage.leftover_partitions("other") == []
    (staged,) = keys(memory)
    assert states(scrubbed(storage)) == {staged: LeftoverState.DELETED}
    assert keys(memory) == []


def test_an_object_that_may_not_be_deleted_is_reported(memory: ObjectStore) -> None:
    left = half(memory)
    fault = StoreFault(Effect.DENIED, 0, of_writes=True)
    store = FaultyStore.over(memory, FaultPlan((fault,)))
    report = scrubbed(KafkaLocal(store))
    assert [type(error) for error in report.errors] == [PermissionDeniedError]
    assert not report.is_clean
    assert set(keys(memory)) == left


def test_a_layout_that_is_read_only_deletes_nothing(memory: ObjectStore) -> None:
    storage = KafkaLog(memory)
    assert scrub(storage, [FIRST], now=lambda: SECONDS).is_clean
    with pytest.raises(UnsupportedOperationError, match="read only"):
        scrub(storage, [FIRST], delete=True, now=lambda: SECONDS)


def test_a_scrub_that_dies_is_repeated(memory: ObjectStore) -> None:
    whole(KafkaLocal(memory), 1)
    kept = set(keys(memory))
    half(memory)
    for at in range(20):
        fault = StoreFault(Effect.ERROR, at)
        store = FaultyStore.over(memory, FaultPlan((fault,)))
        with suppress(StorageUnavailableError):
            scrubbed(KafkaLocal(store))
        assert set(keys(memory)) >= kept
        half(memory)
    assert scrubbed(KafkaLocal(memory)).is_clean
    assert set(keys(memory)) == kept
