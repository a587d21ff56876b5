"""Tiers of Kafka's are moved to KafScale's layout and back."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from support.kafka_data import KAFKA, REMOTE
from support.kafscale import kafscale
from support.log_directories import (
    ID,
    OTHER_ID,
    log_of,
    partition_of,
    push_all,
    source_of,
    write_log,
)
from tieredfs import (
    AlreadyExistsError,
    InvalidArgumentError,
    LogSegmentData,
    NotFoundError,
    ObjectStore,
    RemoteStorageManager,
    RequestCounter,
    SegmentMetadata,
    Tier,
    TieredFSError,
    TopicIdPartition,
    Uuid,
)
from tieredfs.log.migrate.migrate import migrate
from tieredfs.log.migrate.plan import plan_migration
from tieredfs.log.push.outcome import PushOutcome, PushReport
from tieredfs.log.retention.expire import expire
from tieredfs.log.retention.plan import Retention
from tieredfs.storage import StorageWrapper
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.samples import PARTITIONS, sample

TOPICS = sorted(place.parent.name for place in KAFKA.glob(f"*/{REMOTE}"))


def move(source: RemoteStorageManager, target: RemoteStorageManager) -> PushReport:
    return migrate(source, target, source.list_partitions())


def logs(storage: RemoteStorageManager) -> dict[tuple[str, int], bytes]:
    found = {}
    for partition in storage.list_partitions():
        for segment in storage.list_segments(partition):
            log = bytes(storage.fetch_log_segment(segment))
            found[str(partition), segment.start_offset] = log
    return found


def records(storage: RemoteStorageManager, topic: str, *, committed: bool) -> pa.Table:
    isolation = "read_committed" if committed else "read_uncommitted"
    try:
        found = Tier(storage).topic(topic)
    except NotFoundError:
        return None
    return found.scan(isolation=isolation, on_gap="skip").to_table()  # type: ignore[arg-type] # one of both


@pytest.mark.parametrize("topic", TOPICS)
def test_a_brokers_tier_has_the_same_logs_and_records_there_and_back(
    topic: str, memory: ObjectStore
) -> None:
    source = KafkaLocal(ObjectStore(str(KAFKA / topic / REMOTE)))
    there = kafscale(ObjectStore(f"{memory.url}/there"))
    back = SingleObject(ObjectStore(f"{memory.url}/back"))
    for report in (move(source, there), move(there, back)):
        assert {one.outcome for one in report.segments} == {PushOutcome.COPIED}
        assert report.partitions == ()
    for target in (there, back):
        assert logs(target) == logs(source)
        for committed in (False, True):
            found = records(target, topic, committed=committed)
            assert found == records(source, topic, committed=committed)


def test_a_migration_that_is_repeated_reads_each_log_once_and_changes_nothing(
    memory: ObjectStore,
) -> None:
    source = KafkaLocal(ObjectStore(str(KAFKA / "txn" / REMOTE)))
    store = ObjectStore(f"{memory.url}/there")
    move(source, kafscale(store))
    before = {entry.key: entry.version for entry in store.list()}
    counter = RequestCounter()
    report = move(source.with_observer(counter), kafscale(store))
    assert {one.outcome for one in report.segments} == {PushOutcome.PRESENT}
    sent = counter.counts.by_verb
    assert (
        sent["get_range"] <= len(report.segments) + 2
    )  # those of the first comparison
    assert {entry.key: entry.version for entry in store.list()} == before


def test_of_uploads_that_begin_at_one_offset_the_longest_is_kept(
    memory: ObjectStore,
) -> None:
    segments = [sample(PARTITIONS[0], 0), sample(PARTITIONS[0], 0, "short")]
    source = SingleObject(ObjectStore(f"{memory.url}/source"))
    short, whole = segments[1], segments[0]
    batch = len(whole.log) // 4
    end = 4  # of the first of four batches of five records
    cut = replace(short.metadata, end_offset=end, size=None)
    source.copy_log_segment(cut, LogSegmentData(whole.log[:batch], {}))
    source.copy_log_segment(whole.metadata, whole.data)
    there = kafscale(ObjectStore(f"{memory.url}/there"))
    report = move(source, there)
    failed = [one for one in report.segments if one.outcome is PushOutcome.FAILED]
    assert [one.segment.end_offset for one in failed] == [end]
    assert "another segment begins there" in str(failed[0].error)
    (kept,) = there.list_segments(there.list_partitions()[0])
    assert there.fetch_log_segment(kept) == whole.log


@pytest.mark.parametrize("topic", TOPICS)
def test_what_a_part_was_copied_of_is_completed(
    topic: str, memory: ObjectStore
) -> None:
    source = KafkaLocal(ObjectStore(str(KAFKA / topic / REMOTE)))
    there = kafscale(memory)
    partitions = source.list_partitions()
    end = max(s.end_offset or 0 for p in partitions for s in source.list_segments(p))
    migrate(source, there, partitions, end=end // 2)
    assert move(source, there).errors == []
    assert logs(there) == logs(source)


class Unlisted(StorageWrapper):
    """A target whose listing has no checksums."""

    def log_checksum(self, metadata: SegmentMetadata) -> int | None:
        del metadata
        return None


class WithoutSizes(StorageWrapper):
    """A source whose listing has no sizes, as that of Aiven's plugin."""

    def survey(
        self, partition: TopicIdPartition
    ) -> Iterator[SegmentMetadata | TieredFSError]:
        for one in super().survey(partition):
            if isinstance(one, SegmentMetadata):
                yield replace(one, size=None, leader_epochs=None)
            else:
                yield one


def put(
    memory: ObjectStore,
    folder: Path,
    logs_by_start: Mapping[int, bytes],
    topic_id: Uuid = ID,
    *,
    end: int = 20,
    epoch: int = 0,
) -> SingleObject:
    """Store closed segments in the native layout, which keeps ids."""
    root = folder / f"{topic_id}-{min(logs_by_start)}"
    logs_of = {**logs_by_start, end: b""}
    write_log(root, logs_of, topic_id=topic_id, epochs=[(epoch, 0)])
    target = SingleObject(ObjectStore(f"{memory.url}/{topic_id}"))
    assert push_all(source_of(root), target).errors == []
    return target


def log_pair(value: str, epoch: int = 0) -> dict[int, bytes]:
    return {start: log_of(start, epoch=epoch, value=value) for start in (0, 10)}


class TestAnotherLogOfTheSameName:
    @pytest.mark.parametrize("is_listed", [True, False])
    def test_a_log_of_the_same_sizes_is_not_taken_for_present(
        self, is_listed: bool, memory: ObjectStore, tmp_path: Path
    ) -> None:
        """No two records are of one leader epoch, so only the checksums differ."""
        one = put(memory, tmp_path, log_pair("old"))
        other = put(memory, tmp_path, log_pair("new", epoch=1), OTHER_ID)
        there = kafscale(ObjectStore(f"{memory.url}/there"))
        move(one, there)
        before = logs(there)
        target = there if is_listed else Unlisted(there)
        for again in (one, WithoutSizes(one)):
            report = move(again, target)
            assert {s.outcome for s in report.segments} == {PushOutcome.PRESENT}
        for source in (other, WithoutSizes(other)):
            report = move(source, target)
            assert [type(error) for error in report.errors] == [AlreadyExistsError] * 2
            assert "is another log than" in str(report.errors[0])
        assert logs(there) == before

    @pytest.mark.parametrize(
        "starts", [(0, 10), (0, 5), (5, 15)], ids=["same", "first", "none"]
    )
    def test_nothing_is_copied_beside_it(
        self, starts: tuple[int, int], memory: ObjectStore, tmp_path: Path
    ) -> None:
        one = put(memory, tmp_path, log_pair("old"))
        first, second = starts
        log = {
            first: log_of(first, second - first, value="new"),
            second: log_of(second, 15, value="new"),
            second + 15: log_of(second + 15, value="new"),
        }
        other = put(memory, tmp_path, log, OTHER_ID, end=second + 25)
        there = kafscale(ObjectStore(f"{memory.url}/there"))
        move(one, there)
        before = logs(there)
        report = move(other, there)
        assert report.segments == ()
        (failed,) = report.partitions
        assert isinstance(failed.error, AlreadyExistsError)
        assert logs(there) == before

    def test_a_log_directory_of_a_topic_that_was_recreated_is_refused(
        self, memory: ObjectStore, tmp_path: Path
    ) -> None:
        """Its first segment is before the stored ones: those that follow show it."""
        there = kafscale(ObjectStore(f"{memory.url}/there"))
        move(put(memory, tmp_path, {10: log_of(10, value="old")}), there)
        before = logs(there)
        write_log(tmp_path / "new", {**log_pair("new"), 20: b""}, topic_id=OTHER_ID)
        report = move(source_of(tmp_path / "new"), there)
        assert [type(error) for error in report.errors] == [AlreadyExistsError]
        assert logs(there) == before


class TestTopicsOfOneName:
    def test_together_they_are_refused(
        self, memory: ObjectStore, tmp_path: Path
    ) -> None:
        source = SingleObject(ObjectStore(f"{memory.url}/source"))
        for topic_id in (ID, OTHER_ID):
            one = put(memory, tmp_path, log_pair("v"), topic_id)
            move(one, source)
        store = ObjectStore(f"{memory.url}/there")
        for migrates in (migrate, plan_migration):
            with pytest.raises(InvalidArgumentError) as caught:
                migrates(source, kafscale(store), source.list_partitions())
            assert ID in str(caught.value)
            assert OTHER_ID in str(caught.value)
        assert not list(store.list())
        report = migrate(source, kafscale(store), [partition_of(OTHER_ID)])
        assert report.count(PushOutcome.COPIED) == 2
        move(source, SingleObject(ObjectStore(f"{memory.url}/other")))

    def test_nothing_shows_one_that_shares_no_offset(
        self, memory: ObjectStore, tmp_path: Path
    ) -> None:
        there = kafscale(ObjectStore(f"{memory.url}/there"))
        old = put(memory, tmp_path, {10: log_of(10, value="old")})
        new = put(memory, tmp_path, {0: log_of(0, value="new")}, OTHER_ID, end=10)
        assert move(old, there).errors == []
        assert move(new, there).errors == []
        assert sorted(logs(there)) == [("t-0", 0), ("t-0", 10)]


def test_what_has_expired_where_no_topic_ids_are_kept_is_not_copied_again(
    tmp_path: Path, memory: ObjectStore
) -> None:
    root = write_log(
        tmp_path / "logs", {start: log_of(start) for start in range(0, 40, 10)}
    ).parent
    target = kafscale(memory)
    push_all(source_of(root), target)
    (partition,) = target.list_partitions()
    (expired,) = expire(target, [partition], Retention(start_offset=20), owner="test")
    assert (len(expired.segments), expired.error) == (2, None)
    for report in (push_all(source_of(root), target), move(source_of(root), target)):
        assert [one.outcome for one in report.segments] == [PushOutcome.PRESENT]
    assert [one.start_offset for one in target.list_segments(partition)] == [20]
