"""A broker's log is pushed whole, once, and in order, whatever happens meanwhile."""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import google_crc32c
import pyarrow as pa
import pytest

from servers import Bucket
from support.damage import flipped
from support.killed_push import kill_at_every_step
from support.log_directories import (
    ID,
    OTHER_ID,
    RECORDED,
    check_records,
    closed_files,
    log_of,
    native,
    outcomes,
    partition_of,
    push_all,
    recorded,
    small,
    source_of,
    topic_of,
    write_last_entry,
    write_log,
)
from support.stores import files_of
from support.wire import seal
from tieredfs import (
    CorruptBatchError,
    IndexType,
    LogSegmentData,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    RequestCounter,
    SegmentMetadata,
    StorageUnavailableError,
    Tier,
    TieredFSError,
    TopicIdPartition,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
from tieredfs.format.index.leader_epochs import parse_leader_epochs
from tieredfs.format.index.producer_snapshot import ProducerSnapshot, ProducerState
from tieredfs.log.partitions import select_partitions, without_internal
from tieredfs.log.pull.pull import pull
from tieredfs.log.push.push import PushOutcome, push
from tieredfs.log.push.push_record import PushRecord
from tieredfs.log.verify.verify import Depth, verify
from tieredfs.objects import Content
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.storage.wrapper import StorageWrapper

COPIED, PRESENT, CHANGED, FAILED = PushOutcome


def check_sound(storage: RemoteStorageManager) -> None:
    """Check that nothing is wrong with any byte."""
    reports = verify(storage, storage.list_partitions(), Depth.EVERYTHING)
    assert reports
    assert [problem for report in reports for problem in report.problems] == []


def offsets(storage: RemoteStorageManager, name: str = "t") -> list[int]:
    found: list[int] = topic_of(storage, name).scan().to_table()["offset"].to_pylist()
    return found


def objects(storage: RemoteStorageManager) -> dict[str, bytes]:
    store = storage.store
    return {entry.key: bytes(store.get(entry.key)) for entry in store.list()}


def puts(counter: RequestCounter) -> int:
    by_verb = counter.by_verb()
    return by_verb.get("put", 0) + by_verb.get("put_file", 0)


@pytest.fixture
def target(memory: ObjectStore) -> SingleObject:
    """The native layout, with nothing in it."""
    return SingleObject(memory)


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    """A log directory with one partition: three closed segments and the active one."""
    root = tmp_path / "broker"
    small(root)
    return root


@pytest.mark.parametrize("topic", RECORDED)
class TestWhatABrokerWrote:
    def test_it_is_read_as_kafka_reads_it_and_pulled_byte_for_byte(
        self, topic: str, place: Bucket, tmp_path: Path
    ) -> None:
        root = recorded(topic, tmp_path / "broker")
        report = push_all(source_of(root), native(place))
        assert {one.outcome for one in report.segments} == {COPIED}
        assert sum(len(one.rebuilt) for one in report.segments) == 0
        stored = native(place)
        check_records(stored, topic)
        check_sound(stored)
        back = ObjectStore(str(tmp_path / "back"))
        pull(stored, back, stored.list_partitions())
        assert closed_files(root).items() <= files_of(tmp_path / "back").items()

    def test_a_second_push_puts_nothing(
        self, topic: str, place: Bucket, tmp_path: Path
    ) -> None:
        root = recorded(topic, tmp_path / "broker")
        first = push_all(source_of(root), native(place))
        counter = RequestCounter()
        again = push_all(source_of(root), native(place, counter))
        assert {one.outcome for one in again.segments} == {PRESENT}
        assert len(again.segments) == len(first.segments)
        assert set(counter.by_verb()) == {"list"}

    def test_compressed_it_comes_back_the_same(
        self, topic: str, memory: ObjectStore, tmp_path: Path
    ) -> None:
        root = recorded(topic, tmp_path / "broker")
        push_all(source_of(root), SingleObject(memory, compression="zstd"))
        stored = SingleObject(memory)
        check_records(stored, topic)
        check_sound(stored)
        back = ObjectStore(str(tmp_path / "back"))
        pull(stored, back, stored.list_partitions())
        assert closed_files(root).items() <= files_of(tmp_path / "back").items()
        again = push_all(source_of(root), SingleObject(memory))
        assert {one.outcome for one in again.segments} == {PRESENT}


@pytest.mark.parametrize("topic", sorted({*RECORDED} - {"compacted"}))  # is not tiered
def test_kafkas_own_layout_takes_it_as_well(
    topic: str, memory: ObjectStore, tmp_path: Path
) -> None:
    root = recorded(topic, tmp_path / "broker")
    push_all(source_of(root), KafkaLocal(memory))
    stored = KafkaLocal(memory)
    check_records(stored, topic)
    check_sound(stored)
    before = objects(stored)
    again = push_all(source_of(root), KafkaLocal(memory))
    assert {one.outcome for one in again.segments} == {PRESENT}
    assert objects(stored) == before


class TestWhatIsPushed:
    def test_the_active_segment_only_when_it_is_asked_for(
        self, logdir: Path, target: SingleObject
    ) -> None:
        report = push_all(source_of(logdir), target)
        assert outcomes(report) == [(0, COPIED), (10, COPIED), (20, COPIED)]
        report = push_all(source_of(logdir), target, active=True)
        assert outcomes(report)[3:] == [(30, COPIED)]
        assert offsets(target) == list(range(40))

    def test_an_active_segment_without_a_batch_is_nothing(
        self, tmp_path: Path, target: SingleObject
    ) -> None:
        write_log(tmp_path, {0: log_of(0), 10: b""})
        report = push_all(source_of(tmp_path), target, active=True)
        assert outcomes(report) == [(0, COPIED)]

    def test_internal_topics_only_when_they_are_named(
        self, logdir: Path, target: SingleObject
    ) -> None:
        write_log(logdir, {0: log_of(0), 10: b""}, partition="__x-0", topic_id=OTHER_ID)
        source = source_of(logdir)
        every = select_partitions(source)
        assert [p.topic for p in every] == ["__x", "t"]
        assert [p.topic for p in without_internal(every)] == ["t"]
        assert [p.topic for p in select_partitions(source, ["__x"])] == ["__x"]
        by_id = select_partitions(source, ["__x"], OTHER_ID)
        assert [p.topic for p in by_id] == ["__x"]
        push_all(source, target)
        assert {p.topic for p in target.list_partitions()} == {"t"}

    def test_a_topic_that_is_not_there_is_not_found(self, logdir: Path) -> None:
        with pytest.raises(NotFoundError, match="'nosuch'"):
            select_partitions(source_of(logdir), ["t", "nosuch"])
        with pytest.raises(NotFoundError, match=OTHER_ID):
            select_partitions(source_of(logdir), topic_id=OTHER_ID)

    def test_a_directory_with_nothing_in_it_is_not_found(self, tmp_path: Path) -> None:
        for root in (tmp_path, tmp_path / "nosuch"):
            with pytest.raises(NotFoundError, match=str(root)):
                select_partitions(source_of(root))

    def test_a_log_of_another_topic_id_is_another_log(
        self, tmp_path: Path, target: SingleObject
    ) -> None:
        small(tmp_path / "one")
        small(tmp_path / "two", topic_id=OTHER_ID)
        push_all(source_of(tmp_path / "one"), target)
        report = push_all(source_of(tmp_path / "two"), target)
        assert {one.outcome for one in report.segments} == {COPIED}
        assert {p.topic_id for p in target.list_partitions()} == {ID, OTHER_ID}

    def test_every_partition_of_every_topic(
        self, logdir: Path, target: SingleObject
    ) -> None:
        for number in range(1, 7):
            write_log(logdir, {0: log_of(0), 10: b""}, partition=f"t-{number}")
        write_log(logdir, {0: log_of(0), 10: b""}, partition="u-0", topic_id=OTHER_ID)
        report = push_all(source_of(logdir), target)
        found = [one.segment.partition for one in report.segments]
        assert found == sorted(found)
        assert len(set(found)) == 8
        assert report.count(COPIED) == len(found) == 10
        check_sound(target)

    def test_a_log_too_large_for_memory_is_the_same_object(
        self, logdir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stores = [SingleObject(ObjectStore(str(tmp_path / n))) for n in ("a", "b")]
        push_all(source_of(logdir), stores[0])
        monkeypatch.setattr("tieredfs.storage.spool_log.MAX_MEMORY_BYTES", 100)
        monkeypatch.setattr("tieredfs.storage.segment_log.spool.MAX_MEMORY_BYTES", 100)
        counter = RequestCounter()
        store = ObjectStore(str(tmp_path / "b"), observer=counter)
        push_all(source_of(logdir), SingleObject(store))
        assert counter.by_verb()["put_file"] == 3
        assert objects(stores[0]) == objects(stores[1])

    def test_it_says_of_each_segment_what_became_of_it_when_it_is_done(
        self, logdir: Path, target: SingleObject
    ) -> None:
        seen: list[tuple[int, PushOutcome]] = []
        source = source_of(logdir)
        report = push(
            source,
            target,
            select_partitions(source),
            progress=lambda one: seen.append((one.segment.start_offset, one.outcome)),
        )
        assert seen == outcomes(report)

    @pytest.mark.parametrize("topic", ["epochs", "txn"])
    def test_a_layout_is_given_each_segment_as_it_will_be_described(
        self, tmp_path: Path, memory: ObjectStore, topic: str
    ) -> None:
        source, target = source_of(recorded(topic, tmp_path)), SingleObject(memory)
        for one in push(source, target, source.list_partitions()).segments:
            known = replace(target.describe(one.segment), record_count=None)
            assert one.segment == known

    def test_a_read_only_target_is_refused(self, tmp_path: Path) -> None:
        target = source_of(small(tmp_path / "other").parent)
        before = files_of(tmp_path / "other")
        with pytest.raises(UnsupportedOperationError, match="read only"):
            push_all(source_of(recorded("plain", tmp_path / "plain")), target)
        assert files_of(tmp_path / "other") == before

    def test_a_container_that_is_not_there_is_not_found(
        self, logdir: Path, s3_bucket: Bucket
    ) -> None:
        store = ObjectStore("s3://no-such-bucket-here", s3_bucket.storage_options)
        with pytest.raises(NotFoundError, match="no-such-bucket-here"):
            push_all(source_of(logdir), SingleObject(store))


class TestAnotherReplica:
    def test_it_is_recognised_by_its_log_alone(
        self, tmp_path: Path, memory: ObjectStore
    ) -> None:
        push_all(source_of(recorded("epochs", tmp_path / "a")), SingleObject(memory))
        other = recorded("epochs", tmp_path / "b")
        for file in other.glob("*/*"):
            if file.suffix in {".index", ".timeindex", ".snapshot"}:
                file.unlink()
            else:
                os.utime(file, (1, 1))
        counter = RequestCounter()
        observed = SingleObject(ObjectStore(memory.url, observer=counter))
        report = push_all(source_of(other), observed)
        assert {one.outcome for one in report.segments} == {PRESENT}
        assert puts(counter) == 0

    def test_what_was_appended_to_the_target_and_pulled_is_recognised_by_its_bytes(
        self, tmp_path: Path, memory: ObjectStore
    ) -> None:
        target = SingleObject(memory)
        topic = Tier(target).create_topic("t")
        partition = topic.reader(0).partition
        for number in range(3):
            topic.append(pa.table({"value": [b"%d" % number] * 10}))
        logs = ObjectStore(str(tmp_path / "pulled"))
        pull(target, logs, [partition])
        record = PushRecord(tmp_path / "pushed")
        for _ in range(2):
            report = push(
                KafkaLog(logs), target, [partition], active=True, record=record
            )
            assert outcomes(report) == [(0, PRESENT), (10, PRESENT), (20, PRESENT)]
        assert len(target.list_segments(partition)) == 3

    def test_one_that_is_ahead_adds_what_is_missing(
        self, tmp_path: Path, target: SingleObject
    ) -> None:
        behind = {start: log_of(start) for start in (0, 10, 20)}
        write_log(tmp_path / "a", behind)
        small(tmp_path / "b")
        push_all(source_of(tmp_path / "a"), target)
        report = push_all(source_of(tmp_path / "b"), target)
        assert outcomes(report) == [(0, PRESENT), (10, PRESENT), (20, COPIED)]


SUFFIXES = {
    "index": IndexType.OFFSET,
    "timeindex": IndexType.TIMESTAMP,
    "snapshot": IndexType.PRODUCER_SNAPSHOT,
    "txnindex": IndexType.TRANSACTION,
    "leader-epoch-checkpoint": IndexType.LEADER_EPOCH,
}


def remove(file: Path) -> None:
    file.unlink()


def scramble(file: Path) -> None:
    file.write_bytes(b"\x55" * 37)


def exchange(file: Path) -> None:
    """Give it entries that are well formed, and of another log."""
    data = bytearray(file.read_bytes())
    # A position, a time, a producer's epoch, the first offset of an abort.
    at = {".index": 7, ".timeindex": 7, ".snapshot": 19, ".txnindex": 17}
    data[at[file.suffix]] ^= 1
    if file.suffix == ".snapshot":
        data[2:6] = google_crc32c.value(bytes(data[6:])).to_bytes(4, "big")
    file.write_bytes(data)


class TestIndexes:
    """Those that are missing or wrong are made from the log; the log is never."""

    @pytest.mark.parametrize(
        ("topic", "suffix", "spoil"),
        [
            (topic, suffix, spoil)
            for topic in ("epochs", "txn")
            for suffix in SUFFIXES
            for spoil in (remove, scramble, exchange)
            # The broker itself lets a checkpoint begin behind the log.
            if (spoil, suffix) != (exchange, "leader-epoch-checkpoint")
            and (topic, suffix) != ("epochs", "txnindex")
        ],
    )
    def test_what_is_read_is_the_same(
        self,
        topic: str,
        suffix: str,
        spoil: Callable[[Path], None],
        tmp_path: Path,
        memory: ObjectStore,
    ) -> None:
        root = recorded(topic, tmp_path / "broker")
        whole = SingleObject(ObjectStore(f"{memory.url}/whole"))
        push_all(source_of(root), whole)
        active = max(root.glob(f"{topic}-0/*.log")).stem
        files = [
            file
            for file in sorted(root.glob(f"{topic}-0/*{suffix}"))
            if file.name.removesuffix(suffix)[-1:] in {".", ""}
        ]
        spoiled = [f for f in files if f.stem != active or suffix == "snapshot"]
        for file in spoiled:
            spoil(file)
        stored = SingleObject(ObjectStore(f"{memory.url}/stored"))
        report = push_all(source_of(root), stored)
        made = Counter(kind for one in report.segments for kind in one.rebuilt)
        each = len(report.segments) if "-" in suffix else len(spoiled)
        assert set(made) == {SUFFIXES[suffix]}
        if (suffix, spoil) == ("snapshot", exchange):
            each -= topic == "txn"  # one says of a producer what its log does not
        assert made.total() == each
        check_sound(stored)
        topics = [topic_of(one, topic) for one in (whole, stored)]
        tables = [one.scan().to_table() for one in topics]
        assert tables[0] == tables[1]
        for row in tables[0].select(["offset", "timestamp"]).to_pylist()[::41]:
            reads = [one.read(0, row["offset"], 1) for one in topics]
            assert reads[0] == reads[1]
            time = {0: row["timestamp"]}
            assert topics[0].offsets_for_times(time) == topics[1].offsets_for_times(
                time
            )

    def test_producers_are_followed_from_segment_to_segment(
        self, tmp_path: Path
    ) -> None:
        root = recorded("txn", tmp_path / "broker")
        kafkas = {
            int(file.stem): ProducerSnapshot.parse(file.read_bytes())
            for file in root.glob("*/*.snapshot")
        }
        for file in root.glob("*/*.snapshot"):
            file.unlink()
        stored = native(Bucket(str(tmp_path / "stored"), {}))
        report = push_all(source_of(root), stored)
        kind = IndexType.PRODUCER_SNAPSHOT
        ours = {
            (one.segment.end_offset or 0) + 1: ProducerSnapshot.parse(
                stored.fetch_index(one.segment, kind)
            )
            for one in report.segments
        }
        for end, snapshot in kafkas.items():
            told = {p.producer_id: p[:4] for p in snapshot.producers}
            assert {p.producer_id: p[:4] for p in ours[end].producers} == told
            assert {p.transaction_first_offset for p in ours[end].producers} == {
                p.transaction_first_offset for p in snapshot.producers
            }

    def test_a_push_that_goes_on_makes_what_one_push_makes(
        self, tmp_path: Path
    ) -> None:
        root = recorded("txn", tmp_path / "broker")
        for file in root.glob("*/*.snapshot"):
            file.unlink()
        whole = native(Bucket(str(tmp_path / "whole"), {}))
        push_all(source_of(root), whole)
        parts = native(Bucket(str(tmp_path / "parts"), {}))
        shutil.copytree(tmp_path / "whole", tmp_path / "parts")
        kept = sorted(objects(whole))[:9]
        parts.store.delete(set(objects(parts)) - set(kept))
        push_all(source_of(root), parts)
        assert objects(parts) == objects(whole)


class _Meddled(KafkaLog):
    """A log directory of which something happens when a log has been half read."""

    def __init__(self, root: Path, happen: Callable[[SegmentMetadata], object]) -> None:
        super().__init__(ObjectStore(str(root)))
        self._happen = happen

    def stream_log(self, metadata: SegmentMetadata) -> Iterator[memoryview]:
        half = (metadata.size or 0) // 2
        yield self.fetch_log_segment(metadata, 0, half)
        self._happen(metadata)
        yield self.fetch_log_segment(metadata, half)


class _Late(KafkaLog):
    """A log directory of which something happens when it has been listed."""

    def __init__(self, root: Path, happen: Callable[[], object]) -> None:
        super().__init__(ObjectStore(str(root)))
        self._happen = happen

    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        found = super().list_segments(partition, min_offset)
        self._happen()
        return found


def once(change: Callable[[], object]) -> Callable[..., None]:
    """Make a change the first time only."""
    left = [change]

    def happen(*_: object) -> None:
        if left:
            left.pop()()

    return happen


def meddle_late(root: Path, change: Callable[[], object]) -> KafkaLog:
    return _Late(root, once(change))


def meddle_half_way(root: Path, change: Callable[[], object]) -> KafkaLog:
    return _Meddled(root, once(change))


Way = Callable[[Path, Callable[[], object]], KafkaLog]


@pytest.mark.parametrize("way", [meddle_late, meddle_half_way])
class TestTheBrokerChangesTheLogMeanwhile:
    @pytest.fixture
    def meddled(self, way: Way, logdir: Path) -> Callable[..., KafkaLog]:
        return lambda change: way(logdir, change)

    def folder(self, logdir: Path) -> Path:
        return logdir / "t-0"

    def test_a_segment_that_was_rewritten_is_read_anew(
        self, logdir: Path, target: SingleObject, meddled: Callable[..., KafkaLog]
    ) -> None:
        cleaned = log_of(0, 5, value="cleaned") + log_of(5, 5)

        def clean() -> None:
            new = self.folder(logdir) / f"{0:020d}.log.swap"
            new.write_bytes(cleaned)
            new.replace(self.folder(logdir) / f"{0:020d}.log")

        report = push_all(meddled(clean), target)
        assert outcomes(report) == [(0, COPIED), (10, COPIED), (20, COPIED)]
        check_sound(target)
        assert bytes(target.fetch_log_segment(report.segments[0].segment)) == cleaned
        assert offsets(target) == list(range(30))

    def test_segments_that_were_merged_are_pushed_as_the_one_they_are(
        self, logdir: Path, target: SingleObject, meddled: Callable[..., KafkaLog]
    ) -> None:
        def merge() -> None:
            folder = self.folder(logdir)
            (folder / f"{0:020d}.log").write_bytes(log_of(0, 5) + log_of(15, 5))
            (folder / f"{10:020d}.log").unlink()

        report = push_all(meddled(merge), target)
        assert outcomes(report) == [(0, COPIED), (20, COPIED)]
        check_sound(target)
        assert offsets(target) == [*range(5), *range(15, 30)]

    def test_segments_that_retention_removed_are_left_out(
        self, logdir: Path, target: SingleObject, meddled: Callable[..., KafkaLog]
    ) -> None:
        report = push_all(
            meddled((self.folder(logdir) / f"{0:020d}.log").unlink), target
        )
        assert outcomes(report) == [(10, COPIED), (20, COPIED)]
        check_sound(target)
        assert offsets(target) == list(range(10, 30))

    def test_a_topic_that_was_deleted_is_nothing(
        self, logdir: Path, target: SingleObject, meddled: Callable[..., KafkaLog]
    ) -> None:
        def delete() -> None:
            self.folder(logdir).rename(logdir / f"t-0.{'0' * 32}-delete")

        report = push_all(meddled(delete), target)
        assert report.segments == ()
        assert target.list_partitions() == []

    def test_a_log_that_was_cut_between_batches_is_not_taken_for_a_whole_one(
        self, logdir: Path, target: SingleObject, meddled: Callable[..., KafkaLog]
    ) -> None:
        log = self.folder(logdir) / f"{0:020d}.log"
        report = push_all(meddled(lambda: log.write_bytes(log_of(0, 5))), target)
        (error,) = report.errors
        assert "ends before offset 5" in str(error)
        assert outcomes(report) == [(0, FAILED), (10, COPIED), (20, COPIED)]
        check_sound(target)


class _ChangedWhilePut(ObjectStore):
    """A target; something happens to the source when a log is put from its place."""

    happen: Callable[[], object]

    def put_file(self, key: str, source: Path | Content, *, overwrite: bool) -> None:
        self.happen()
        super().put_file(key, source, overwrite=overwrite)


class TestALargeLogIsPutFromWhereItLies:
    @pytest.fixture(autouse=True)
    def large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tieredfs.storage.spool_log.MAX_MEMORY_BYTES", 100)
        monkeypatch.setattr("tieredfs.storage.segment_log.spool.MAX_MEMORY_BYTES", 100)

    @pytest.fixture
    def changed(self, memory: ObjectStore) -> _ChangedWhilePut:
        return _ChangedWhilePut(memory.url)

    @pytest.mark.parametrize("layout", [SingleObject, KafkaLocal])
    def test_no_temporary_file_is_made(
        self,
        layout: type[SingleObject | KafkaLocal],
        logdir: Path,
        memory: ObjectStore,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nosuch"))
        report = push_all(source_of(logdir), layout(memory))
        assert outcomes(report) == [(0, COPIED), (10, COPIED), (20, COPIED)]
        check_sound(layout(memory))
        back = ObjectStore(str(tmp_path / "back"))
        pull(layout(memory), back, [partition_of()])
        assert closed_files(logdir).items() <= files_of(tmp_path / "back").items()

    @pytest.mark.parametrize("layout", [SingleObject, KafkaLocal])
    def test_one_that_is_rewritten_meanwhile_is_never_stored_half_old_and_half_new(
        self,
        layout: type[SingleObject | KafkaLocal],
        logdir: Path,
        changed: _ChangedWhilePut,
    ) -> None:
        log = logdir / "t-0" / f"{0:020d}.log"
        later = log_of(0, value="w")
        assert len(later) == log.stat().st_size
        changed.happen = once(lambda: log.write_bytes(later))
        report = push_all(source_of(logdir), layout(changed))
        assert outcomes(report) == [(0, COPIED), (10, COPIED), (20, COPIED)]
        stored = layout(ObjectStore(changed.url))
        check_sound(stored)
        assert bytes(stored.fetch_log_segment(report.segments[0].segment)) == later

    def test_a_layout_that_only_takes_files_gets_one_without_a_name(
        self, logdir: Path, memory: ObjectStore
    ) -> None:
        class OnlyFiles(StorageWrapper):
            copy_open_log = RemoteStorageManager.copy_open_log
            replace_log_segment = RemoteStorageManager.replace_log_segment
            seen: ClassVar[list[LogSegmentData]] = []

            def copy_log_segment(
                self, metadata: SegmentMetadata, data: LogSegmentData
            ) -> bytes:
                self.seen.append(data)
                assert isinstance(data.log, Path)
                assert str(data.log.resolve()).endswith("(deleted)")
                return super().copy_log_segment(metadata, data)

        target = OnlyFiles(SingleObject(memory))
        report = push_all(source_of(logdir), target)
        assert report.count(COPIED) == len(target.seen) == 3
        check_sound(target)
        key = next(memory.list("t/")).key
        memory.put(key, flipped(bytes(memory.get(key)), 70), overwrite=True)
        source = source_of(logdir)
        push(source, target, source.list_partitions(), repair=True)
        check_sound(SingleObject(memory))

    def test_one_that_retention_removes_meanwhile_is_left_out(
        self, logdir: Path, changed: _ChangedWhilePut
    ) -> None:
        log = logdir / "t-0" / f"{0:020d}.log"
        changed.happen = once(log.unlink)
        report = push_all(source_of(logdir), SingleObject(changed))
        assert outcomes(report) == [(10, COPIED), (20, COPIED)]
        check_sound(SingleObject(ObjectStore(changed.url)))

    def test_a_disk_that_gives_other_bytes_each_time_fails_the_segment(
        self, logdir: Path, changed: _ChangedWhilePut
    ) -> None:
        log = logdir / "t-0" / f"{0:020d}.log"
        told = log.stat()

        def damage() -> None:
            with log.open("r+b") as file:
                file.write(flipped(log.read_bytes(), 100))
            os.utime(log, ns=(told.st_atime_ns, told.st_mtime_ns))

        class Unseeing(KafkaLog):
            def is_current(
                self, metadata: SegmentMetadata, last_offset: int | None = None
            ) -> bool:
                del metadata, last_offset
                return True

        changed.happen = once(damage)
        source = Unseeing(ObjectStore(str(logdir)))
        report = push_all(source, SingleObject(changed))
        assert outcomes(report) == [(0, FAILED), (10, COPIED), (20, COPIED)]
        assert "has changed while it was read" in str(report.errors[0])


class TestTheCleanerIsAtWork:
    def test_a_segment_that_never_stands_still_is_left_with_what_follows(
        self, logdir: Path, target: SingleObject
    ) -> None:
        rewritten = 0

        def rewrite(segment: SegmentMetadata) -> None:
            nonlocal rewritten
            if segment.start_offset == 10:
                rewritten += 1
                log = logdir / "t-0" / f"{10:020d}.log"
                log.write_bytes(log_of(10, value="v" * rewritten))

        report = push_all(_Meddled(logdir, rewrite), target)
        assert outcomes(report) == [(0, COPIED), (10, CHANGED)]
        assert report.errors == []
        assert offsets(target) == list(range(10))
        report = push_all(source_of(logdir), target)
        assert outcomes(report) == [(0, PRESENT), (10, COPIED), (20, COPIED)]
        check_sound(target)

    def test_what_was_merged_after_it_was_pushed_is_read_once(
        self, logdir: Path, target: SingleObject
    ) -> None:
        push_all(source_of(logdir), target)
        folder = logdir / "t-0"
        (folder / f"{0:020d}.log").write_bytes(log_of(0, 5) + log_of(15, 5))
        (folder / f"{10:020d}.log").unlink()
        report = push_all(source_of(logdir), target)
        assert outcomes(report) == [(0, COPIED), (20, PRESENT)]
        check_sound(target)
        assert offsets(target) == [*range(5), *range(15, 30)]

    def test_a_merge_that_left_the_first_log_as_it_was_leaves_no_hole(
        self, logdir: Path, target: SingleObject
    ) -> None:
        """Nothing of the second segment was worth keeping; only an end has moved."""
        (logdir / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 30\n")
        folder = logdir / "t-0"
        (folder / f"{20:020d}.log").rename(folder / "kept")
        (folder / f"{30:020d}.log").unlink()
        push_all(source_of(logdir), target)  # the first one only
        (folder / "kept").rename(folder / f"{20:020d}.log")
        (folder / f"{30:020d}.log").touch()
        (folder / f"{10:020d}.log").unlink()
        write_last_entry(folder, 0)
        report = push_all(source_of(logdir), target)
        assert outcomes(report) == [(0, COPIED), (20, COPIED)]
        check_sound(target)
        assert offsets(target) == [*range(10), *range(20, 30)]

    def test_no_segment_is_lengthened_while_the_next_one_is_replaced(
        self, logdir: Path, target: SingleObject
    ) -> None:
        """The cleaner takes the old logs away, and then gives the new one its name."""
        folder = logdir / "t-0"
        whole = (folder / f"{10:020d}.log").rename(folder / f"{10:020d}.log.swap")
        push_all(source_of(logdir), target)
        assert topic_of(target).scan(end=10).to_table().num_rows == 10
        whole.rename(folder / f"{10:020d}.log")
        push_all(source_of(logdir), target)
        check_sound(target)
        assert offsets(target) == list(range(30))


class TestCorruptSegments:
    def test_one_fails_alone_and_says_why(
        self, logdir: Path, target: SingleObject
    ) -> None:
        log = logdir / "t-0" / f"{10:020d}.log"
        log.write_bytes(flipped(log.read_bytes(), 100))
        report = push_all(source_of(logdir), target)
        assert outcomes(report) == [(0, COPIED), (10, FAILED), (20, COPIED)]
        (error,) = report.errors
        assert isinstance(error, CorruptBatchError)
        assert str(logdir) in str(error)
        assert f"t-0/{10:020d}" in str(error)
        assert report.count(FAILED) == 1
        starts = [s.start_offset for s in target.list_segments(partition_of())]
        assert starts == [0, 20]

    def test_its_error_does_not_hold_the_log_in_memory(
        self, logdir: Path, target: SingleObject
    ) -> None:
        log = logdir / "t-0" / f"{10:020d}.log"
        log.write_bytes(flipped(log.read_bytes(), 100))
        (error,) = push_all(source_of(logdir), target).errors
        chain: list[BaseException] = [error]
        while (below := chain[-1].__context__) is not None:
            chain.append(below)
        assert [one.__traceback__ for one in chain] == [None] * len(chain)

    def test_a_format_that_is_not_read_fails_likewise(
        self, logdir: Path, target: SingleObject
    ) -> None:
        log = logdir / "t-0" / f"{10:020d}.log"
        batch = bytearray(log_of(10, 5))
        batch[22] = 5  # its codec; the last one that there is is 4
        log.write_bytes(seal(batch) + log_of(15, 5))
        (error,) = push_all(source_of(logdir), target).errors
        assert isinstance(error, UnsupportedFormatError)

    def test_a_closed_segment_that_ends_in_part_of_a_batch_fails(
        self, logdir: Path, target: SingleObject
    ) -> None:
        log = logdir / "t-0" / f"{10:020d}.log"
        log.write_bytes(log.read_bytes()[:-1])
        report = push_all(source_of(logdir), target)
        assert outcomes(report) == [(0, COPIED), (10, FAILED), (20, COPIED)]

    def test_offsets_of_another_segment_fail(
        self, logdir: Path, target: SingleObject
    ) -> None:
        (logdir / "t-0" / f"{10:020d}.log").write_bytes(log_of(20))
        report = push_all(source_of(logdir), target)
        assert outcomes(report) == [(0, COPIED), (10, FAILED), (20, COPIED)]

    def test_an_object_that_was_cut_is_put_again(
        self, logdir: Path, tmp_path: Path
    ) -> None:
        target = native(Bucket(str(tmp_path / "stored"), {}))
        push_all(source_of(logdir), target)
        whole = objects(target)
        victim = sorted((tmp_path / "stored").rglob("*.segment"))[1]
        victim.write_bytes(victim.read_bytes()[:-1])
        report = push_all(
            source_of(logdir), native(Bucket(str(tmp_path / "stored"), {}))
        )
        assert outcomes(report) == [(0, PRESENT), (10, COPIED), (20, PRESENT)]
        assert objects(target) == whole


class TestWhatFailsDoesNotEndThePush:
    def test_a_topic_that_the_target_cannot_hold_leaves_the_others(
        self, memory: ObjectStore, tmp_path: Path
    ) -> None:
        for topic in ("compacted", "plain"):
            root = recorded(topic, tmp_path / "broker")
        target = KafkaLocal(memory)
        report = push_all(source_of(root), target)
        (error,) = report.errors
        assert isinstance(error, UnsupportedOperationError)
        assert "its log is compacted" in str(error)
        found = Counter((s.segment.partition.topic, s.outcome) for s in report.segments)
        assert found.pop(("compacted", FAILED)) == 1
        assert set(found) == {("plain", COPIED)}
        check_records(target, "plain")

    @pytest.mark.parametrize("error", [StorageUnavailableError, PermissionDeniedError])
    def test_a_log_that_cannot_be_read_fails_alone(
        self, error: type[TieredFSError], logdir: Path, target: SingleObject
    ) -> None:
        def fail(segment: SegmentMetadata) -> None:
            if segment.start_offset == 10:
                raise error("get_range t-0/10.log: Input/output error")

        report = push_all(_Meddled(logdir, fail), target)
        assert outcomes(report) == [(0, COPIED), (10, FAILED), (20, COPIED)]
        assert [type(one) for one in report.errors] == [error]
        report = push_all(source_of(logdir), target)
        assert outcomes(report) == [(0, PRESENT), (10, COPIED), (20, PRESENT)]

    def test_a_partition_that_a_newer_release_has_written_fails_alone(
        self, logdir: Path, target: SingleObject
    ) -> None:
        write_log(logdir, {0: log_of(0), 10: b""}, partition="u-0", topic_id=OTHER_ID)
        push_all(source_of(logdir), target)
        key = next(target.store.list("t/")).key
        target.store.put(key.replace("-0000-", "-8000-"), b"", overwrite=True)
        for start in (10, 20):
            (logdir / "u-0" / f"{start:020d}.log").write_bytes(log_of(start))
        report = push_all(source_of(logdir), SingleObject(target.store))
        assert outcomes(report) == [(0, PRESENT), (10, COPIED)]
        assert [one.partition for one in report.partitions] == [partition_of()]
        assert [type(one) for one in report.errors] == [UnsupportedFormatError]


class TestRepair:
    @pytest.mark.parametrize(
        ("layout", "suffix"),
        [
            (SingleObject, "segment"),
            *[(KafkaLocal, "log"), (KafkaLocal, "index"), (KafkaLocal, "timeindex")],
            *[(KafkaLocal, "snapshot"), (KafkaLocal, "txnindex")],
            (KafkaLocal, "leader_epoch_checkpoint"),
        ],
    )
    @pytest.mark.parametrize("at", [70, -1])
    def test_it_replaces_what_verify_condemns_and_nothing_else(
        self,
        layout: type[SingleObject | KafkaLocal],
        suffix: str,
        at: int,
        memory: ObjectStore,
        tmp_path: Path,
    ) -> None:
        root = recorded("txn", tmp_path)
        push_all(source_of(root), layout(memory))
        whole = objects(layout(memory))
        *_, victim = [key for key in whole if key.endswith(f".{suffix}")]
        data = flipped(whole[victim], min(at, len(whole[victim]) - 1))
        memory.put(victim, data, overwrite=True)
        reports = verify(
            layout(memory), layout(memory).list_partitions(), Depth.EVERYTHING
        )
        problems = [problem for report in reports for problem in report.problems]
        counter = RequestCounter()
        target = layout(ObjectStore(memory.url, observer=counter))
        source = source_of(root)
        report = push(source, target, source.list_partitions(), repair=True)
        assert report.errors == []
        replaced = [one for one in report.segments if one.replaced is not None]
        assert [one.outcome for one in replaced] == [COPIED] * bool(problems)
        assert report.count(COPIED) == len(replaced)
        if problems:
            assert objects(target) == whole
            check_sound(target)
        else:
            assert puts(counter) == 0

    @pytest.mark.parametrize("behind", [b"\0" * 50, b"x"])
    def test_a_log_with_bytes_behind_its_end_is_replaced(
        self, behind: bytes, logdir: Path, memory: ObjectStore
    ) -> None:
        push_all(source_of(logdir), KafkaLocal(memory))
        whole = objects(KafkaLocal(memory))
        key = next(key for key in whole if key.endswith(".log"))
        memory.put(key, whole[key] + behind, overwrite=True)
        source, target = source_of(logdir), KafkaLocal(memory)
        report = push(source, target, source.list_partitions(), repair=True)
        assert report.count(COPIED) == 1
        assert objects(target) == whole
        check_sound(target)

    def test_without_it_damage_stays(self, logdir: Path, target: SingleObject) -> None:
        push_all(source_of(logdir), target)
        key = next(target.store.list("t/")).key
        damaged = flipped(bytes(target.store.get(key)), 70)
        target.store.put(key, damaged, overwrite=True)
        report = push_all(source_of(logdir), SingleObject(target.store))
        assert report.count(PRESENT) == 3
        assert target.store.get(key) == damaged

    def test_a_damaged_copy_that_was_stored_otherwise_goes_when_the_new_one_is_there(
        self, logdir: Path, memory: ObjectStore
    ) -> None:
        push_all(source_of(logdir), SingleObject(memory, compression="zstd"))
        key = next(memory.list("t/")).key
        memory.put(key, flipped(bytes(memory.get(key)), 70), overwrite=True)
        source = source_of(logdir)
        events: list[str] = []

        class Noting(ObjectStore):
            def put(
                self, key: str, data: bytes | bytearray | memoryview, *, overwrite: bool
            ) -> None:
                super().put(key, data, overwrite=overwrite)
                events.append("put")

            def delete(self, keys: Iterable[str]) -> None:
                found = list(keys)
                events.extend(f"delete {key}" for key in found)
                super().delete(found)

        target = SingleObject(Noting(memory.url))
        push(source, target, source.list_partitions(), repair=True)
        assert events == ["put", f"delete {key}"]
        check_sound(SingleObject(memory))
        assert offsets(SingleObject(memory)) == list(range(30))

    def test_what_a_newer_release_has_written_is_not_replaced(
        self, logdir: Path, target: SingleObject, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        push_all(source_of(logdir), target)
        before = objects(target)

        def newer(*_: object) -> None:
            raise UnsupportedFormatError("a manifest of version 2")

        monkeypatch.setattr(SingleObject, "fetch_all_indexes", newer)
        source = source_of(logdir)
        report = push(source, target, source.list_partitions(), repair=True)
        assert report.count(FAILED) == 3
        assert objects(target) == before


class TestTheActiveSegment:
    def test_a_torn_tail_is_left_out_and_what_is_whole_is_pushed(
        self, logdir: Path, target: SingleObject
    ) -> None:
        log = logdir / "t-0" / f"{30:020d}.log"
        log.write_bytes(log_of(30, 10)[:-1])
        push_all(source_of(logdir), target, active=True)
        check_sound(target)
        assert offsets(target) == list(range(35))

    def test_when_it_is_rolled_its_records_are_read_once(
        self, logdir: Path, target: SingleObject
    ) -> None:
        folder = logdir / "t-0"
        grown = b""
        for count in (5, 10, 15):
            grown = log_of(30, count)
            (folder / f"{30:020d}.log").write_bytes(grown + b"\0" * 7)
            push_all(source_of(logdir), target, active=True)
            check_sound(target)
            assert offsets(target) == list(range(30 + count))
        (folder / f"{30:020d}.log").write_bytes(grown)
        (folder / f"{45:020d}.log").write_bytes(log_of(45, 5))
        report = push_all(source_of(logdir), target)
        # It was pushed as far as it went, and has not grown since.
        assert outcomes(report)[3:] == [(30, PRESENT)]
        report = push_all(source_of(logdir), target, active=True)
        assert outcomes(report)[4:] == [(45, COPIED)]
        check_sound(target)
        assert offsets(target) == list(range(50))
        for offset in range(50):
            assert topic_of(target).read(0, offset, 1)["offset"][0].as_py() == offset

    def test_it_grows_while_it_is_read(
        self, logdir: Path, target: SingleObject
    ) -> None:
        def grow(segment: SegmentMetadata) -> None:
            log = logdir / "t-0" / f"{30:020d}.log"
            if segment.start_offset == 30:
                log.write_bytes(log_of(30, 20))

        report = push_all(_Meddled(logdir, grow), target, active=True)
        assert outcomes(report)[3:] == [(30, COPIED)]
        check_sound(target)
        assert offsets(target) == list(range(40))

    @pytest.mark.parametrize("topic", ["plain", "epochs", "compacted"])
    def test_one_with_padded_indexes_is_pushed_as_far_as_it_goes(
        self, topic: str, target: SingleObject, tmp_path: Path
    ) -> None:
        root = recorded(topic, tmp_path / "broker")
        report = push_all(source_of(root), target, active=True)
        assert {one.outcome for one in report.segments} == {COPIED}
        check_sound(target)
        ends = [topic_of(one, topic).end_offsets() for one in (target, source_of(root))]
        assert ends[0] == ends[1]


def test_wherever_a_push_is_killed_what_is_there_is_whole_and_the_next_completes(
    logdir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is seen of a segment that was not put; those before it are all there."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # dozens of small files
    whole = native(Bucket(str(tmp_path / "whole"), {}))
    push_all(source_of(logdir), whole)
    places = kill_at_every_step(logdir, tmp_path / "killed")
    seen = set()
    for place in places:
        stored = native(Bucket(str(place), {}))
        found = objects(stored)
        assert found.items() <= objects(whole).items()
        partitions = stored.list_partitions()
        assert partitions == ([partition_of()] if found else [])
        if found:
            check_sound(stored)
            assert offsets(stored) == list(range(10 * len(found)))
        seen.add(len(found))
        push_all(source_of(logdir), native(Bucket(str(place), {})))
        assert objects(native(Bucket(str(place), {}))) == objects(whole)
    assert seen == {0, 1, 2, 3}


class TestWhatWasLost:
    def test_a_segment_that_is_missing_is_not_taken_for_compaction(
        self, logdir: Path, target: SingleObject
    ) -> None:
        (logdir / "t-0" / f"{10:020d}.log").unlink()
        report = push_all(source_of(logdir), target)
        assert outcomes(report) == [(0, FAILED), (20, COPIED)]
        (error,) = report.errors
        assert "ends before offset 10, the segment at 19" in str(error)

    def test_a_cut_object_is_made_good_though_an_index_has_changed(
        self, logdir: Path, target: SingleObject
    ) -> None:
        """The tail is another one then, and so is the key of the object."""
        push_all(source_of(logdir), target)
        key = next(target.store.list("t/")).key
        target.store.put(key, bytes(target.store.get(key))[:-1], overwrite=True)
        snapshot = logdir / "t-0" / f"{10:020d}.snapshot"
        producer = ProducerState(7, 0, -1, -1, 0, -1, -1, -1)
        snapshot.write_bytes(ProducerSnapshot((producer,)).encode())
        report = push_all(source_of(logdir), SingleObject(target.store))
        assert outcomes(report)[0] == (0, COPIED)
        assert offsets(target) == list(range(30))


class TestWhatIsRebuilt:
    def test_a_checkpoint_that_is_missing_keeps_the_whole_history(
        self, target: SingleObject, tmp_path: Path
    ) -> None:
        logs = {start: log_of(start, epoch=start // 10) for start in (0, 10, 20)}
        folder = write_log(tmp_path, {**logs, 30: b""})
        (folder / "leader-epoch-checkpoint").unlink()
        push_all(source_of(tmp_path), target)
        last = target.list_segments(partition_of())[-1]
        kind = IndexType.LEADER_EPOCH
        epochs = parse_leader_epochs(target.fetch_index(last, kind))
        assert epochs.entries == ((0, 0), (1, 10), (2, 20))

    def test_producers_are_followed_from_the_snapshot_where_the_log_begins(
        self, target: SingleObject, tmp_path: Path
    ) -> None:
        logdir = recorded("txn", tmp_path)
        folder = logdir / "txn-0"
        starts = sorted(int(log.stem) for log in folder.glob("*.log"))
        (folder / f"{starts[0]:020d}.log").unlink()  # retention has moved on
        after = folder / f"{starts[2]:020d}.snapshot"
        expected = ProducerSnapshot.parse(after.read_bytes())
        after.unlink()
        push_all(source_of(logdir), target)
        first = target.list_segments(target.list_partitions()[0])[0]
        kind = IndexType.PRODUCER_SNAPSHOT
        rebuilt = ProducerSnapshot.parse(target.fetch_index(first, kind))
        assert set(rebuilt.producers) == set(expected.producers)

    @pytest.mark.parametrize("topic", ["plain", "txn"])
    def test_at_the_topics_interval_they_are_the_broker_s_byte_for_byte(
        self, topic: str, target: SingleObject, tmp_path: Path
    ) -> None:
        logdir = recorded(topic, tmp_path)
        written = closed_files(logdir)
        kinds = {IndexType.OFFSET: "index", IndexType.TIMESTAMP: "timeindex"}
        for suffix in kinds.values():
            for file in logdir.glob(f"*/*.{suffix}"):
                file.unlink()
        source = source_of(logdir)
        push(source, target, source.list_partitions(), interval_bytes=256)
        (partition,) = target.list_partitions()
        for segment in target.list_segments(partition):
            indexes = target.fetch_all_indexes(segment)
            for kind, suffix in kinds.items():
                name = f"{topic}-0/{segment.start_offset:020d}.{suffix}"
                assert indexes[kind] == written[name]
