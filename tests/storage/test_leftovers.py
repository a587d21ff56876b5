"""What copies and appends leave that did not end, and what deletes a partition."""

import pytest

from tieredfs import (
    CorruptObjectError,
    InvalidArgumentError,
    Leftover,
    NotFoundError,
    ObjectStore,
    RemoteStorageManager,
    SegmentMetadata,
    StorageUnavailableError,
    TopicIdPartition,
    UnsupportedOperationError,
)
from tieredfs.storage import Capability
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.samples import PARTITIONS, Sample, sample
from tieredfs.testing.stores import WRITES, WatchedStore

FIRST, OTHER, _ = PARTITIONS


def dying(store: ObjectStore, limit: int) -> WatchedStore:
    """Return a store whose user dies after so many writes."""
    return WatchedStore.over(store, WRITES, limit=limit)


def keys(store: ObjectStore) -> list[str]:
    return [entry.key for entry in store.list()]


def append(storage: RemoteStorageManager, one: Sample) -> bytes:
    return storage.append_log_segment(one.metadata, one.data)


class TestKafkaLocal:
    def test_files_of_a_copy_that_died_are_found_with_what_they_lack(
        self, memory: ObjectStore
    ) -> None:
        one = sample(FIRST, 1)
        with pytest.raises(StorageUnavailableError):
            KafkaLocal(dying(memory, 2)).copy_log_segment(one.metadata, one.data)
        found = list(KafkaLocal(memory).scrub(FIRST))
        assert [leftover.key for leftover in found] == keys(memory)
        assert len(found) == 2
        for leftover in found:
            assert leftover.size == memory.head(leftover.key).size
            name = f"{one.metadata.start_offset:020d}-{one.metadata.id}"
            assert name in str(leftover)
            assert "has no leader_epoch_checkpoint, log, snapshot" in leftover.reason
        assert list(KafkaLocal(memory).scrub(OTHER)) == []

    def test_a_segment_of_which_a_file_was_lost_is_left_over(
        self, memory: ObjectStore
    ) -> None:
        one = sample(FIRST, 0)
        storage = KafkaLocal(memory)
        storage.copy_log_segment(one.metadata, one.data)
        (gone,) = [key for key in keys(memory) if key.endswith(".timeindex")]
        memory.delete([gone])
        assert {leftover.key for leftover in storage.scrub(FIRST)} == set(keys(memory))
        storage.cancel_copying(FIRST)
        assert keys(memory) == []

    def test_a_partition_is_deleted_in_two_requests_logs_first(
        self, memory: ObjectStore
    ) -> None:
        for number in range(3):
            one = sample(FIRST, number)
            KafkaLocal(memory).copy_log_segment(one.metadata, one.data)
        memory.put(f"{FIRST}-{FIRST.topic_id}/notes.txt", b"mine", overwrite=True)
        watched = WatchedStore.over(memory, ["delete"], limit=1)
        with pytest.raises(StorageUnavailableError):
            KafkaLocal(watched).delete_partition(FIRST)
        assert not [key for key in keys(memory) if key.endswith(".log")]
        assert KafkaLocal(memory).list_segments(FIRST) == []
        watched = WatchedStore.over(memory, ["delete"])
        KafkaLocal(watched).delete_partition(FIRST)
        assert watched.calls == 1
        assert keys(memory) == [f"{FIRST}-{FIRST.topic_id}/notes.txt"]


class TestSingleObject:
    def test_a_copy_that_died_leaves_nothing(self, memory: ObjectStore) -> None:
        one = sample(FIRST, 0)
        with pytest.raises(StorageUnavailableError):
            SingleObject(dying(memory, 0)).copy_log_segment(one.metadata, one.data)
        assert keys(memory) == []
        assert list(SingleObject(memory).scrub(FIRST)) == []

    @pytest.mark.parametrize("limit", [1, 2])
    def test_what_an_append_that_died_put_aside_is_found_and_removed(
        self, memory: ObjectStore, limit: int
    ) -> None:
        one = sample(FIRST, 0)
        with pytest.raises(StorageUnavailableError):
            append(SingleObject(dying(memory, limit)), one)
        storage = SingleObject(memory)
        (left,) = storage.scrub(FIRST)
        assert left == Leftover(
            left.key,
            memory.head(left.key).size or 0,
            f"staged for an append to {FIRST} that was not completed",
        )
        assert list(storage.scrub(OTHER)) == []
        storage.cancel_copying(OTHER)
        assert left.key in keys(memory)
        storage.cancel_copying(FIRST)
        assert left.key not in keys(memory)
        assert list(storage.scrub(FIRST)) == []

    @pytest.mark.parametrize("limit", [1, 2, 3])
    def test_who_appends_after_that_wins_or_is_told(
        self, memory: ObjectStore, limit: int
    ) -> None:
        with pytest.raises(StorageUnavailableError):
            append(SingleObject(dying(memory, limit)), sample(FIRST, 0))
        storage = SingleObject(memory)
        storage.cancel_copying(FIRST)
        whole = limit == 3  # it had been completed: only its answer was lost
        if not whole:
            append(storage, sample(FIRST, 0, "next"))
        (listed,) = storage.list_segments(FIRST)
        expected = sample(FIRST, 0, "" if whole else "next")
        assert listed.id == expected.metadata.id
        assert storage.fetch_log_segment(listed) == expected.log

    def test_strangers_and_damaged_objects_aside_are_left_alone(
        self, memory: ObjectStore
    ) -> None:
        one = sample(FIRST, 0)
        with pytest.raises(StorageUnavailableError):
            append(SingleObject(dying(memory, 1)), one)
        (aside,) = keys(memory)
        content = bytes(memory.get(aside))
        memory.put(aside, content[:-8] + bytes(8), overwrite=True)
        memory.put("@tieredfs/aside/stranger", b"1", overwrite=True)
        storage = SingleObject(memory)
        assert list(storage.scrub(FIRST)) == []
        storage.cancel_copying(FIRST)
        assert len(keys(memory)) == 2

    def test_a_partition_is_deleted_with_its_damaged_segments(
        self, memory: ObjectStore
    ) -> None:
        for number in range(2):
            one = sample(FIRST, number)
            SingleObject(memory).copy_log_segment(one.metadata, one.data)
        first, *_ = keys(memory)
        newer = first.replace("-0000-", "-8000-").replace("-0001-", "-8000-")
        memory.put(first, b"cut", overwrite=True)
        memory.put(newer, b"from a newer release", overwrite=True)
        memory.put(f"{first.rpartition('/')[0]}/notes.txt", b"mine", overwrite=True)
        storage = SingleObject(memory)
        with pytest.raises(CorruptObjectError):
            storage.list_segments(FIRST)
        storage.delete_partition(FIRST)
        assert [key.rpartition("/")[2] for key in keys(memory)] == ["notes.txt"]

    def test_an_offset_that_was_appended_at_can_be_again_when_all_is_deleted(
        self, memory: ObjectStore
    ) -> None:
        storage = SingleObject(memory)
        append(storage, sample(FIRST, 0))
        storage.delete_partition(FIRST)
        with pytest.raises(NotFoundError):
            storage.list_segments(FIRST)
        append(storage, sample(FIRST, 0, "again"))
        assert len(storage.list_segments(FIRST)) == 1


class Simple(KafkaLocal):
    """A layout that has nothing better than the contract's defaults."""

    delete_partition = RemoteStorageManager.delete_partition


class TestTheDefaults:
    def test_a_partition_is_deleted_one_segment_after_the_other(
        self, memory: ObjectStore
    ) -> None:
        for number in range(3):
            one = sample(FIRST, number)
            Simple(memory).copy_log_segment(one.metadata, one.data)
        kept = sample(OTHER, 0)
        Simple(memory).copy_log_segment(kept.metadata, kept.data)
        Simple(memory).delete_partition(FIRST)
        assert Simple(memory).list_partitions() == [OTHER]
        Simple(memory).delete_partition(FIRST)
        assert all(key.startswith(f"{OTHER}-") for key in keys(memory))

    def test_a_layout_that_is_read_only_says_so(self, memory: ObjectStore) -> None:
        storage = KafkaLog(memory)
        assert Capability.WRITE not in storage.capabilities
        with pytest.raises(UnsupportedOperationError, match=r"KafkaLog.*delete orders"):
            storage.delete_partition(FIRST)
        with pytest.raises(UnsupportedOperationError, match="read only"):
            storage.cancel_copying(FIRST)
        assert list(storage.scrub(FIRST)) == []


@pytest.mark.parametrize("layout", [KafkaLocal, KafkaLog])
@pytest.mark.parametrize(
    ("start", "error"), [(-1, InvalidArgumentError), (10_000, CorruptObjectError)]
)
def test_a_log_whose_size_is_not_told_is_read_whole_or_it_is_an_error(
    layout: type[KafkaLocal | KafkaLog],
    start: int,
    error: type[Exception],
    memory: ObjectStore,
) -> None:
    one = sample(TopicIdPartition(FIRST.topic, 0), 0)
    told = SegmentMetadata(one.metadata.partition, one.metadata.id, 0)
    stem = f"{0:020d}" if layout is KafkaLog else f"{0:020d}-{told.id}"
    folder = str(told.partition)
    if layout is KafkaLocal:
        folder += f"-{told.partition.topic_id}"
    memory.put(f"{folder}/{stem}.log", one.log, overwrite=True)
    storage = layout(memory)
    assert storage.fetch_log_segment(told) == one.log
    assert storage.fetch_log_segment(told, 7) == one.log[7:]
    with pytest.raises(error):
        storage.fetch_log_segment(told, start)
