"""A tier is moved whole, from any layout to any other, whatever happens meanwhile."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import BinaryIO

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import example, given

from support.kafka_data import KAFKA, LOCAL, REMOTE
from support.log_directories import ID, log_of, source_of, write_log
from support.stores import files_of, fill, make_place, open_store
from tieredfs import (
    AlreadyExistsError,
    CorruptBatchError,
    CorruptDataError,
    CorruptObjectError,
    IndexType,
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    RemoteStorageManager,
    RequestCounter,
    RequestCounts,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    Tier,
    TopicIdPartition,
    UnsupportedOperationError,
    open_storage,
)
from tieredfs.log.migrate.migrate import migrate
from tieredfs.log.migrate.plan import plan_migration
from tieredfs.log.push.outcome import PushOutcome, PushReport
from tieredfs.log.push.push import push
from tieredfs.log.read.scan_bounds import Position
from tieredfs.log.verify.verify import Depth, verify
from tieredfs.storage import StorageWrapper
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.storage.segment_log.source import LogSource
from tieredfs.storage.segment_log.temporary_file import open_temporary_file
from tieredfs.testing.faults import (
    STORE_ERRORS,
    CrashError,
    Effect,
    FaultPlan,
    FaultyStore,
    StoreFault,
)
from tieredfs.testing.samples import PARTITIONS, sample
from tieredfs.testing.stores import scratch_store

TOPICS = sorted(place.parent.name for place in KAFKA.glob(f"*/{REMOTE}"))
LAYOUTS: Mapping[str, tuple[str, dict[str, object]]] = {
    "native": ("single-object", {}),
    "zstd": ("single-object", {"compression": "zstd"}),
    "kafka-local": ("kafka-local", {}),
}
every_topic = pytest.mark.parametrize("topic", TOPICS)
every_layout = pytest.mark.parametrize("layout", LAYOUTS)
FIRST = PARTITIONS[0]


@dataclass(frozen=True)
class Content:
    """All that a segment is."""

    metadata: SegmentMetadata
    log: bytes
    indexes: dict[IndexType, bytes]


def tiered(topic: str) -> RemoteStorageManager:
    """Return what a broker tiered of a topic."""
    return KafkaLocal(ObjectStore(str(KAFKA / topic / REMOTE)))


def opened(store: ObjectStore, layout: str) -> RemoteStorageManager:
    name, options = LAYOUTS[layout]
    return open_storage(store, name, options)


def contents(storage: RemoteStorageManager) -> dict[tuple[str, int, str], Content]:
    """Return every segment by its partition, offset and id."""
    found = {}
    for partition in storage.list_partitions():
        for listed in storage.list_segments(partition):
            indexes = storage.fetch_all_indexes(listed)
            segment = storage.describe(listed, indexes)
            log = bytes(storage.fetch_log_segment(segment))
            plain = replace(segment, version="", custom_metadata=b"")
            data = {kind: bytes(index) for kind, index in indexes.items()}
            name = str(partition), listed.start_offset, str(listed.id)
            found[name] = Content(plain, log, data)
    return found


def records(storage: RemoteStorageManager) -> dict[str, pa.Table]:
    tier = Tier(storage)
    names = {partition.topic for partition in storage.list_partitions()}
    return {name: tier.topic(name).scan(on_gap="skip").to_table() for name in names}


def move(
    source: RemoteStorageManager,
    target: RemoteStorageManager,
    start: Position = None,
    end: Position = None,
) -> PushReport:
    """Migrate everything, one segment at a time."""
    partitions = source.list_partitions()
    return migrate(source, target, partitions, start=start, end=end, concurrency=1)


def sent_since(counter: RequestCounter, before: RequestCounts) -> Counter[str]:
    return Counter(counter.counts.by_verb) - Counter(before.by_verb)


def outcomes(report: PushReport) -> dict[str, int]:
    counts = {outcome.value: report.count(outcome) for outcome in PushOutcome}
    return {name: count for name, count in counts.items() if count}


def starts(report: PushReport) -> list[int]:
    return [one.segment.start_offset for one in report.segments]


@every_topic
@every_layout
def test_every_sample_is_moved_there_and_back(
    topic: str, layout: str, memory: ObjectStore
) -> None:
    source, target = tiered(topic), opened(memory, layout)
    expected = contents(source)
    report = migrate(source, target, source.list_partitions())
    assert outcomes(report) == {"copied": len(expected)}
    assert not any(one.rebuilt for one in report.segments)
    assert contents(target) == expected
    assert records(target) == records(source)
    for other in LAYOUTS:
        with scratch_store() as store:
            back = opened(store, other)
            assert migrate(target, back, target.list_partitions()).errors == []
            assert contents(back) == expected
    problems = [
        problem
        for one in verify(target, target.list_partitions(), Depth.EVERYTHING)
        for problem in one.problems
    ]
    known = [
        problem
        for one in verify(source, source.list_partitions(), Depth.EVERYTHING)
        for problem in one.problems
    ]
    assert len(problems) == len(known)


@every_layout
def test_what_the_target_has_is_neither_read_nor_copied_again(
    layout: str, memory: ObjectStore
) -> None:
    seen, written = RequestCounter(), RequestCounter()
    place = ObjectStore(str(KAFKA / "txn" / REMOTE), observer=seen)
    source = KafkaLocal(place)
    target = opened(memory.with_observer(written), layout)
    count = len(contents(tiered("txn")))
    partitions = source.list_partitions()
    assert outcomes(migrate(source, target, partitions)) == {"copied": count}
    before, sent = seen.counts, written.counts
    report = migrate(source, target, partitions)
    assert outcomes(report) == {"present": count}
    assert set(sent_since(seen, before)) == {"list"}
    assert set(sent_since(written, sent)) == {"list"}


def test_overlapping_uploads_of_several_leaders_are_all_copied(
    memory: ObjectStore,
) -> None:
    source, target = tiered("leader-changes"), SingleObject(memory)
    assert len(move(source, target).segments) == 3
    (partition,) = target.list_partitions()
    listed = target.list_segments(partition)
    ends = [one.end_offset or 0 for one in listed]
    assert any(
        one.start_offset <= end for one, end in zip(listed[1:], ends, strict=False)
    )
    assert contents(target) == contents(source)


FAULTS = [Effect.CRASH, Effect.CRASH_AFTER]


@pytest.mark.parametrize("target_layout", ["native", "kafka-local"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_migration_that_is_killed_anywhere_and_repeated_ends_the_same(
    target_layout: str, side: str
) -> None:
    source = tiered("epochs")
    expected = contents(source)
    with scratch_store() as store:
        counted = FaultyStore.over(store)
        origin = FaultyStore.over(source.store)
        move(KafkaLocal(origin), opened(counted, target_layout))
        total = len(counted.requests if side == "target" else origin.requests)
    random = Random(side + target_layout)  # noqa: S311 - repeatable, not secret
    for at in sorted(random.choices(range(total), k=50)):
        plan = FaultPlan((StoreFault(random.choice(FAULTS), at),))
        with scratch_store() as store:
            origin = FaultyStore.over(source.store)
            killed = FaultyStore.over(store)
            (killed if side == "target" else origin).follow(plan)
            with pytest.raises(CrashError):
                move(KafkaLocal(origin), opened(killed, target_layout))
            target = opened(store, target_layout)
            with suppress(NotFoundError):
                assert contents(target).items() <= expected.items()
            assert move(source, target).errors == []
            assert contents(target) == expected
            for partition in target.list_partitions():
                assert list(target.scrub(partition)) == []


@given(
    st.sampled_from(list(LAYOUTS)),
    st.lists(
        st.tuples(st.integers(0, 60), st.sampled_from([*Effect])),
        min_size=1,
        max_size=4,
    ),
)
@example("kafka-local", [(7, Effect.LOST_REPLY), (9, Effect.CUT)])
def test_faults_of_the_target_in_any_order_lose_nothing(
    layout: str, faults: list[tuple[int, Effect]]
) -> None:
    source = tiered("epochs")
    expected = contents(source)
    with scratch_store() as store:
        for at, effect in faults:
            plan = FaultPlan((StoreFault(effect, at),))
            with suppress(*STORE_ERRORS, CrashError):
                faulty = opened(FaultyStore.over(store, plan), layout)
                migrate(source, faulty, source.list_partitions())
        target = opened(store, layout)
        assert move(source, target).errors == []
        assert contents(target) == expected


class TestRanges:
    def test_whole_segments_that_overlap_offsets(self, memory: ObjectStore) -> None:
        source = tiered("txn")
        listed = [content.metadata for content in contents(source).values()]
        start, end = listed[3].start_offset + 1, listed[6].start_offset + 1
        for target in (SingleObject(memory), None):
            if target is not None:
                report = move(source, target, start, end)
                assert starts(report) == [one.start_offset for one in listed[3:7]]
        (plan,) = plan_migration(
            source, target or SingleObject(memory), source.list_partitions(), end=end
        )
        assert (plan.segments, plan.present) == (3, 4)

    @every_layout
    def test_bounds_are_inclusive_and_exclusive(
        self, layout: str, memory: ObjectStore
    ) -> None:
        origin = opened(memory, layout)
        move(tiered("txn"), origin)
        listed = [content.metadata for content in contents(origin).values()]
        one, following = listed[2], listed[3]
        with scratch_store() as store:
            report = move(
                origin, SingleObject(store), one.end_offset, following.start_offset
            )
            assert starts(report) == [one.start_offset]
        with scratch_store() as store:
            report = move(origin, SingleObject(store), following.start_offset)
            assert starts(report) == [each.start_offset for each in listed[3:]]

    def test_times_stand_for_offsets(self, memory: ObjectStore) -> None:
        source = tiered("txn")
        partition = source.list_partitions()[0]
        topic = Tier(source).topic(partition.topic)
        table = topic.scan().to_table()
        at = table["timestamp"][table.num_rows // 2].as_py()
        found = topic.offsets_for_times({0: at})[0]
        assert found is not None
        listed = [content.metadata for content in contents(source).values()]
        expected = [
            one.start_offset for one in listed if (one.end_offset or 0) >= found.offset
        ]
        assert starts(move(source, SingleObject(memory), at)) == expected

    def test_nothing_is_in_a_range_beyond_the_end(self, memory: ObjectStore) -> None:
        assert move(tiered("txn"), SingleObject(memory), 10**9).segments == ()

    def test_the_end_is_not_before_the_start(self, memory: ObjectStore) -> None:
        with pytest.raises(InvalidArgumentError, match="after end"):
            move(tiered("txn"), SingleObject(memory), 5, 4)


class TestPlans:
    @every_layout
    @pytest.mark.parametrize("origin", LAYOUTS)
    def test_a_plan_is_about_what_is_then_done(self, layout: str, origin: str) -> None:
        with scratch_store() as one, scratch_store() as other:
            source = opened(one, origin)
            move(tiered("txn"), source)
            read, written = RequestCounter(), RequestCounter()
            source = opened(one.with_observer(read), origin)
            target = opened(other.with_observer(written), layout)
            partitions = source.list_partitions()
            (plan,) = plan_migration(source, target, partitions)
            assert not list(other.list())
            expected = contents(opened(one, origin))
            assert plan.segments == len(expected)
            assert plan.size == sum(len(one.log) for one in expected.values())
            before, sent = read.counts, written.counts
            assert outcomes(move(source, target)) == {"copied": plan.segments}
            done = sent_since(read, before), sent_since(written, sent)
            writes = done[1].pop("put")
            for verbs in done:
                verbs.pop("list", None)
            reads = sum(sum(verbs.values()) for verbs in done)
            assert abs(reads - plan.reads) <= plan.segments
            assert abs(writes - plan.writes) <= plan.segments
            (plan,) = plan_migration(source, target, partitions)
            assert (plan.segments, plan.size, plan.reads, plan.writes) == (0, 0, 0, 0)

    def test_of_a_log_directory_all_closed_segments_are_counted(
        self, memory: ObjectStore, tmp_path: Path
    ) -> None:
        write_log(tmp_path, {0: log_of(0), 10: log_of(10), 20: b""}, topic_id=ID)
        source, target = source_of(tmp_path), SingleObject(memory)
        (plan,) = plan_migration(source, target, source.list_partitions())
        assert (plan.segments, plan.present) == (2, 0)


class TestDamage:
    def test_a_corrupt_segment_fails_alone(self, memory: ObjectStore) -> None:
        fill(memory, files_of(KAFKA / "txn" / REMOTE))
        source = KafkaLocal(memory)
        (partition,) = source.list_partitions()
        listed = source.list_segments(partition)
        key = next(
            e.key
            for e in memory.list()
            if str(listed[2].id) in e.key and e.key.endswith(".log")
        )
        log = bytearray(memory.get(key))
        log[len(log) // 2] ^= 1
        memory.put(key, log, overwrite=True)
        with scratch_store() as store:
            target = SingleObject(store)
            report = move(source, target)
            (failed,) = [
                one for one in report.segments if one.outcome is PushOutcome.FAILED
            ]
            assert failed.segment.id == listed[2].id
            assert isinstance(failed.error, CorruptDataError)
            assert failed.error.__traceback__ is None
            assert len(contents(target)) == len(listed) - 1

    def test_a_log_that_ends_early_is_not_taken_for_a_compacted_one(
        self, memory: ObjectStore
    ) -> None:
        class Claiming(KafkaLocal):
            def describe(
                self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
            ) -> SegmentMetadata:
                found = super().describe(metadata, indexes)
                return replace(found, end_offset=(found.end_offset or 0) + 5)

        source = Claiming(ObjectStore(str(KAFKA / "epochs" / REMOTE)))
        report = move(source, SingleObject(memory))
        assert {type(error) for error in report.errors} == {CorruptBatchError}
        assert not list(memory.list())

    @pytest.mark.parametrize("kind", list(IndexType))
    def test_an_index_that_is_wrong_or_missing_is_rebuilt(
        self, kind: IndexType, memory: ObjectStore
    ) -> None:
        class Wrong(KafkaLocal):
            def fetch_index(
                self, metadata: SegmentMetadata, index_type: IndexType
            ) -> memoryview:
                found = super().fetch_index(metadata, index_type)
                if index_type is kind and kind is IndexType.OFFSET:
                    raise NotFoundError("not found: an index")
                if index_type is kind and kind is not IndexType.LEADER_EPOCH:
                    return memoryview(bytes(found)[:-1])
                return found

        expected = contents(tiered("txn"))
        source = Wrong(ObjectStore(str(KAFKA / "txn" / REMOTE)))
        report = move(source, SingleObject(memory))
        assert report.errors == []
        found = contents(SingleObject(memory))
        assert found.keys() == expected.keys()
        for name, content in found.items():
            assert content.log == expected[name].log
            same = [k for k in IndexType if k is not kind]
            for other in same:
                assert content.indexes.get(other) == expected[name].indexes.get(other)
        rebuilt = {kind for one in report.segments for kind in one.rebuilt}
        assert rebuilt <= {kind}
        problems = verify(
            SingleObject(memory),
            SingleObject(memory).list_partitions(),
            Depth.EVERYTHING,
        )
        assert [problem for one in problems for problem in one.problems] == []

    @pytest.mark.parametrize("effect", ["changed", "short", "gone"])
    def test_a_copy_that_gives_back_something_else_is_deleted_again(
        self, effect: str, memory: ObjectStore
    ) -> None:
        class Faulty(StorageWrapper):
            def stream_log(self, metadata: SegmentMetadata) -> Iterator[memoryview]:
                pieces = [bytes(piece) for piece in super().stream_log(metadata)]
                if effect == "gone":
                    raise NotFoundError("not found: a segment")
                if effect == "short":
                    pieces = [piece[:-1] for piece in pieces]
                elif pieces:
                    pieces[0] = pieces[0][:-1] + bytes([pieces[0][-1] ^ 1])
                return map(memoryview, pieces)

        source = tiered("epochs")
        report = move(source, Faulty(KafkaLocal(memory)))
        assert {type(error) for error in report.errors} == {CorruptObjectError}
        assert not list(memory.list())
        assert contents(source) == contents(tiered("epochs"))

    @pytest.mark.parametrize("is_directory", [False, True])
    def test_a_copy_that_was_replaced_while_it_was_read_is_not_deleted(
        self, is_directory: bool, memory: ObjectStore
    ) -> None:
        """As by another migration of the same segments, which copies them whole."""

        class Replaced(StorageWrapper):
            def __init__(self, inner: RemoteStorageManager) -> None:
                super().__init__(inner)
                self.seen: set[SegmentId] = set()

            def stream_log(self, metadata: SegmentMetadata) -> Iterator[memoryview]:
                if metadata.id not in self.seen:
                    self.seen.add(metadata.id)
                    raise CorruptObjectError("parts of two copies")
                return super().stream_log(metadata)

        directory = KafkaLog(ObjectStore(str(KAFKA / "epochs" / LOCAL)))
        source = directory if is_directory else tiered("epochs")
        target = Replaced(KafkaLocal(memory))
        report = move(source, target)
        assert report.errors == []
        assert len(contents(KafkaLocal(memory))) == len(report.segments) > 1
        assert outcomes(report) == {"copied": len(target.seen)}

    def test_what_the_source_deletes_meanwhile_is_left_out(
        self, memory: ObjectStore
    ) -> None:
        for number in range(3):
            one = sample(FIRST, number)
            SingleObject(memory).copy_log_segment(one.metadata, one.data)

        class Deleting(SingleObject):
            def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
                if metadata.id == sample(FIRST, 1).metadata.id:
                    SingleObject(memory).delete_log_segment(metadata)
                return super().fetch_all_indexes(metadata)

        with scratch_store() as store:
            report = move(Deleting(memory), KafkaLocal(store))
            assert outcomes(report) == {"copied": 2}
            assert report.errors == []


class TestRefusals:
    def test_a_segment_that_the_layout_cannot_store_fails_alone(
        self, memory: ObjectStore
    ) -> None:
        refused = sample(FIRST, 1).metadata.id

        class Picky(KafkaLocal):
            def copy_open_log(
                self,
                metadata: SegmentMetadata,
                log: LogSource,
                indexes: Mapping[IndexType, bytes],
            ) -> bytes:
                if metadata.id == refused:
                    raise UnsupportedOperationError(f"{metadata}: not here")
                return super().copy_open_log(metadata, log, indexes)

        for number in range(3):
            one = sample(FIRST, number)
            SingleObject(memory).copy_log_segment(one.metadata, one.data)
        with scratch_store() as store:
            report = move(SingleObject(memory), Picky(store))
            assert outcomes(report) == {"copied": 2, "failed": 1}
            (error,) = report.errors
            assert isinstance(error, UnsupportedOperationError)

    def test_every_segment_of_a_compacted_log_is_reported(
        self, memory: ObjectStore
    ) -> None:
        source = KafkaLog(ObjectStore(str(KAFKA / "compacted" / LOCAL)))
        (partition,) = source.list_partitions()
        closed = [s for s in source.list_segments(partition) if not source.is_active(s)]
        report = move(source, KafkaLocal(memory))
        assert len(report.segments) == len(closed)
        assert outcomes(move(source, SingleObject(memory))) == {"copied": len(closed)}

    def test_a_target_that_is_read_only(self, memory: ObjectStore) -> None:
        with pytest.raises(UnsupportedOperationError, match="read only"):
            move(tiered("epochs"), KafkaLog(memory))

    @pytest.mark.parametrize("layout", LAYOUTS)
    @pytest.mark.parametrize("below", ["", "/below"])
    def test_a_place_that_is_not_apart(
        self, layout: str, below: str, memory: ObjectStore
    ) -> None:
        inside = ObjectStore(memory.url + below)
        for one, other in ((memory, inside), (inside, memory)):
            with pytest.raises(InvalidArgumentError, match="outside of it"):
                move(SingleObject(one), opened(other, layout))
            with pytest.raises(InvalidArgumentError, match="outside of it"):
                plan_migration(SingleObject(one), opened(other, layout), [FIRST])

    def test_one_url_at_two_endpoints_is_two_places(self) -> None:
        def at(port: int) -> ObjectStore:
            options = {"endpoint_url": f"http://127.0.0.1:{port}", "key": "k"}
            return ObjectStore("s3://bucket/tier", options | {"secret": "s"})

        assert not at(1).is_inside(at(2))
        assert at(1).is_inside(at(1))

    def test_no_concurrency(self, memory: ObjectStore) -> None:
        with pytest.raises(InvalidArgumentError, match="below 1"):
            migrate(tiered("epochs"), SingleObject(memory), [FIRST], concurrency=0)


class TestLogDirectories:
    @pytest.mark.parametrize("topic", ["epochs", "plain"])
    def test_a_log_is_migrated_as_it_is_pushed(
        self, topic: str, memory: ObjectStore
    ) -> None:
        source = KafkaLog(ObjectStore(str(KAFKA / topic / LOCAL)))
        partitions = source.list_partitions()
        with scratch_store() as store:
            push(source, SingleObject(store), partitions)
            expected = contents(SingleObject(store))
        assert outcomes(move(source, SingleObject(memory))) == {"copied": len(expected)}
        assert contents(SingleObject(memory)) == expected
        assert outcomes(move(source, SingleObject(memory))) == {
            "present": len(expected)
        }

    def test_a_range_of_a_log(self, memory: ObjectStore, tmp_path: Path) -> None:
        logs = {at: log_of(at) for at in (0, 10, 20)}
        write_log(tmp_path, {**logs, 30: b""}, topic_id=ID)
        report = move(source_of(tmp_path), SingleObject(memory), 10, 20)
        assert starts(report) == [10]

    def test_other_records_in_the_place_of_a_log_are_refused(
        self, memory: ObjectStore, tmp_path: Path
    ) -> None:
        write_log(tmp_path / "a", {0: log_of(0), 10: b""}, topic_id=ID)
        other = log_of(0, value="other")
        write_log(tmp_path / "b", {0: other, 10: b""}, topic_id=ID)
        move(source_of(tmp_path / "a"), SingleObject(memory))
        report = move(source_of(tmp_path / "b"), SingleObject(memory))
        assert [type(error) for error in report.errors] == [AlreadyExistsError]


@pytest.mark.parametrize(("kind", "files"), [("memory", 0), ("chained", 1)])
def test_a_large_log_is_read_in_place_or_held_in_a_file(
    kind: str,
    files: int,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened_files = []

    @contextmanager
    def counted() -> Iterator[BinaryIO]:
        with open_temporary_file() as file:
            opened_files.append(file)
            yield file

    monkeypatch.setattr("tieredfs.storage.spool_log.MAX_MEMORY_BYTES", 100)
    monkeypatch.setattr("tieredfs.storage.segment_log.spool.MAX_MEMORY_BYTES", 100)
    monkeypatch.setattr("tieredfs.storage.spool_log.open_temporary_file", counted)
    given = files_of(KAFKA / "epochs" / REMOTE)
    source = KafkaLocal(open_store(make_place(kind, request, tmp_path, given)))
    expected = contents(source)
    for layout in LAYOUTS:
        with scratch_store() as store:
            assert move(source, opened(store, layout)).errors == []
            assert contents(opened(store, layout)) == expected
    assert len(opened_files) == files * len(LAYOUTS) * len(expected)


def test_what_cannot_be_listed_is_reported_and_the_rest_is_copied(
    memory: ObjectStore,
) -> None:
    for number in range(3):
        one = sample(FIRST, number)
        SingleObject(memory).copy_log_segment(one.metadata, one.data)
    first, *_ = [entry.key for entry in memory.list()]
    memory.put(first, b"cut", overwrite=True)
    with scratch_store() as store:
        report = move(SingleObject(memory), KafkaLocal(store))
        assert outcomes(report) == {"copied": 2}
        (failed,) = report.partitions
        assert failed.partition == FIRST
        assert isinstance(failed.error, CorruptObjectError)


def test_a_copy_that_was_cut_is_copied_again(memory: ObjectStore) -> None:
    source, target = tiered("epochs"), KafkaLocal(memory)
    move(source, target)
    log = next(entry for entry in memory.list() if entry.key.endswith(".log"))
    memory.put(log.key, memory.get(log.key)[:-1], overwrite=True)
    report = move(source, target)
    assert report.count(PushOutcome.COPIED) == 1
    assert contents(target) == contents(source)


def test_ids_are_kept_of_topics_of_one_name(memory: ObjectStore) -> None:
    one, other = (
        TopicIdPartition(FIRST.topic, 0, SegmentId(text * 21 + "A")) for text in "BC"
    )
    for partition in (one, other):
        made = sample(partition, 0)
        SingleObject(memory).copy_log_segment(made.metadata, made.data)
    with scratch_store() as store:
        move(SingleObject(memory), KafkaLocal(store))
        assert KafkaLocal(store).list_partitions() == sorted([one, other])
