"""Which of several copies serves the offsets that all of them hold."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from support.log_directories import ID, push_all, source_of, topic_of, write_log
from support.segments import segment
from support.stores import fill
from support.wire import WireRecord, encode_batch
from tieredfs import (
    CorruptDataError,
    EpochEntry,
    ObjectStore,
    SegmentId,
    SegmentMetadata,
    Topic,
    TopicIdPartition,
)
from tieredfs.epochs import LeaderEpochs
from tieredfs.log.planning.overlap import Tile, serve
from tieredfs.log.verify.verify import Depth, verify
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject

FOLDER = f"t-0-{ID}"


@pytest.fixture
def target(memory: ObjectStore) -> SingleObject:
    """The native layout, with nothing in it."""
    return SingleObject(memory)


def log_without(start: int, end: int, *gone: int) -> bytes:
    """Encode a log in batches of ten offsets, without the records that are gone."""
    return b"".join(
        encode_batch(
            [
                WireRecord(at, 1_700_000_000_000 + at, b"k", b"v")
                for at in range(first, first + 10)
                if at not in gone
            ],
            base_offset=first,
            last_offset=first + 9,
        )
        for first in range(start, end, 10)
    )


def push_replica(root: Path, target: SingleObject, logs: Mapping[int, bytes]) -> None:
    """Push the log directory of a replica that the cleaner has been in."""
    write_log(root, logs)
    (root / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 300\n")
    push_all(source_of(root), target)


def spans(topic: Topic) -> list[tuple[int, int, int]]:
    """Return what each segment serves: its own start, and the offsets."""
    return [
        (part.segment.start_offset, part.start_offset, part.end_offset)
        for part in topic.scan().plan.slices
    ]


def test_of_copies_that_hold_the_same_one_that_is_nowhere_older_counts(
    target: SingleObject, tmp_path: Path
) -> None:
    push_replica(tmp_path / "a", target, {0: log_without(0, 100), 100: b""})
    cleaned = {0: log_without(0, 60), 60: log_without(60, 100, 70), 100: b""}
    push_replica(tmp_path / "b", target, cleaned)
    assert spans(topic_of(target)) == [(0, 0, 60), (60, 60, 100)]
    found = topic_of(target).scan().to_table()["offset"].to_pylist()
    assert found == [at for at in range(100) if at != 70]


def test_replicas_that_were_cleaned_differently_are_read_as_one_state(
    target: SingleObject, tmp_path: Path
) -> None:
    """One has dropped a tombstone and merged; the other has cleaned further since."""
    merged = {0: log_without(0, 200, 5), 200: log_without(200, 300), 300: b""}
    further = {
        0: log_without(0, 100),
        100: log_without(100, 200, 150),
        200: log_without(200, 300),
        300: b"",
    }
    for name, logs in (("a", merged), ("b", further), ("c", merged)):
        push_replica(tmp_path / name, target, logs)
        found = topic_of(target).scan().to_table()["offset"].to_pylist()
        states = [set(range(300)) - {gone} for gone in (5, 150)]
        assert set(found) in states
        (partition,) = target.list_partitions()
        (report,) = verify(target, [partition], Depth.EVERYTHING)
        assert report.problems == ()


class _Watched(SingleObject):
    """Count the reads of logs."""

    reads = 0

    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        self.reads += 1
        return super().fetch_log_segment(metadata, start, end, layout=layout)

    def fetch_log_ahead(
        self, metadata: SegmentMetadata, start: int, end: int, *, layout: bytes = b""
    ) -> memoryview:
        self.reads += 1
        return super().fetch_log_ahead(metadata, start, end, layout=layout)


@pytest.mark.parametrize(
    ("other", "is_read"),
    [
        ({0: log_without(0, 100, 70)}, False),
        ({0: log_without(0, 60), 60: log_without(60, 100, 70)}, True),
    ],
    ids=["whole segments", "parts of them"],
)
def test_a_log_is_read_only_where_the_manifests_leave_it_open(
    target: SingleObject,
    tmp_path: Path,
    other: Mapping[int, bytes],
    *,
    is_read: bool,
) -> None:
    mine = {0: log_without(0, 100, 10), 100: b""}
    push_replica(tmp_path / "a", target, mine)
    push_replica(tmp_path / "b", target, {**other, 100: b""})
    watched = _Watched(target.store)
    topic_of(watched).scan(on_gap="skip")
    assert (watched.reads > 0) is is_read


def test_without_counts_copies_count_as_equal(
    memory: ObjectStore, target: SingleObject, tmp_path: Path
) -> None:
    """The same two copies, in a layout that keeps counts and in one that does not."""
    older, later = log_without(0, 120), log_without(100, 200, 110)
    push_replica(tmp_path / "a", target, {0: older, 120: b""})
    push_replica(tmp_path / "b", target, {100: later, 200: b""})
    with pytest.raises(CorruptDataError, match="bring back deleted records"):
        topic_of(target).scan()
    kafkas = ObjectStore(f"{memory.url}-kafka")
    fill(kafkas, segment(FOLDER, 0, older) | segment(FOLDER, 100, later))
    assert topic_of(KafkaLocal(kafkas)).scan().to_table().num_rows == 200
    kafkas.delete([entry.key for entry in kafkas.list()])


def test_the_smaller_first_offset_does_not_decide(memory: ObjectStore) -> None:
    for start in (0, 50, 100):
        fill(memory, segment(FOLDER, start, log_without(start, start + 100)))
    assert spans(topic_of(KafkaLocal(memory))) == [(0, 0, 100), (100, 100, 200)]


@pytest.mark.parametrize("order", ["ab", "ba", "abab", "baba"])
def test_the_longer_of_two_objects_stays_where_a_cleaner_has_been(
    order: str, target: SingleObject, tmp_path: Path
) -> None:
    """It emptied the second segment, and took a record out of the third one."""
    head = log_without(0, 100)
    replicas = {
        "a": {0: head, 200: log_without(200, 300, 210), 300: b""},
        "b": {
            0: head,
            100: log_without(100, 200),
            200: log_without(200, 300),
            300: b"",
        },
    }
    for name in order:
        push_replica(tmp_path / name, target, replicas[name])
    found = topic_of(target).scan().to_table()["offset"].to_pylist()
    assert found == [at for at in range(300) if not 100 <= at < 200 and at != 210]


def described(
    number: int, start: int, end: int, *epochs: tuple[int, int]
) -> SegmentMetadata:
    """Say of the offsets ``[start, end)`` what ``serve`` has to know of a segment."""
    return SegmentMetadata(
        TopicIdPartition("t", 0, ID),
        SegmentId.from_bytes(bytes([number]) * 16),
        start,
        end - 1,
        leader_epochs=tuple(EpochEntry(*entry) for entry in epochs),
    )


def served(lineage: LeaderEpochs, *segments: SegmentMetadata) -> list[Tile]:
    """Return what serves the offsets below 200, of copies that are alike."""
    return serve(segments, lineage, 0, 200, lambda *_: 0)


def test_a_copy_counts_up_to_where_it_leaves_the_true_history() -> None:
    old = described(1, 0, 100, (0, 0), (1, 50))
    new = described(2, 60, 200, (0, 0), (2, 60))
    lineage = LeaderEpochs(new.leader_epochs or ())
    assert served(lineage, old, new) == [(old, 0, 50), (new, 60, 200)]


def test_of_copies_that_begin_together_the_one_that_ends_furthest_counts() -> None:
    short = described(1, 0, 60, (0, 0))
    long = described(2, 0, 200, (0, 0))
    lineage = LeaderEpochs((EpochEntry(0, 0),))
    for order in ((short, long), (long, short)):
        assert served(lineage, *order) == [(long, 0, 200)]
