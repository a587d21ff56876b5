"""Segments that overlap after a change of leader: one history is the true one.

Their batches are real ones, put under other epochs (no checksum covers the epoch), and
a few made by hand.
"""

import uuid
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.kafka_data import KAFKA, REMOTE
from support.log_directories import source_of
from support.segments import records, segment
from support.stores import files_of, fill
from support.wire import encode_batch
from tieredfs import (
    CorruptDataError,
    IndexType,
    LogSegmentData,
    ObjectStore,
    SegmentId,
    SegmentMetadata,
    Tier,
    Topic,
    TopicIdPartition,
    Uuid,
    open_storage,
)
from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import ErrorKind
from tieredfs.format.index.leader_epochs import format_leader_epochs
from tieredfs.log import SegmentCatalog
from tieredfs.log.pull.pull import pull
from tieredfs.log.verify.verify import verify
from tieredfs.storage.layouts.single_object.layout import SingleObject

ID = "dao62lTOQsGBPyjJLrpQKw"
FOLDER = f"t-0-{ID}"
LATE = 1_900_000_000_000


def topic_of(store: ObjectStore) -> Topic:
    return Tier(open_storage(store, "kafka-local")).topic("t")


def real_segments() -> dict[int, dict[str, bytes]]:
    """Return the files of a real partition by the start of their segment."""
    found: dict[int, dict[str, bytes]] = {}
    for key, content in files_of(KAFKA / "two-partitions" / REMOTE).items():
        folder, _, name = key.partition("/")
        if folder.startswith("two-partitions-0-"):
            found.setdefault(int(name[:20]), {})[f"{FOLDER}/{name}"] = content
    return found


def under(log: bytes, epoch: int) -> bytes:
    """Return the log as the leader of another epoch would have written it."""
    out = bytearray(log)
    at = 0
    while at < len(out):
        out[at + 12 : at + 16] = epoch.to_bytes(4, "big")
        at += 12 + int.from_bytes(out[at + 8 : at + 12], "big")
    return bytes(out)


def change(
    files: dict[str, bytes],
    *,
    epochs: list[tuple[int, int]],
    epoch: int,
    tail: bytes = b"",
) -> dict[str, bytes]:
    entries = "".join(f"{number} {start}\n" for number, start in epochs)
    checkpoint = f"0\n{len(epochs)}\n{entries}".encode()
    return {
        key: under(content, epoch) + tail
        if key.endswith(".log")
        else checkpoint
        if key.endswith(".leader_epoch_checkpoint")
        else content
        for key, content in files.items()
    }


def values(
    topic: Topic, start: int | None = None, end: int | None = None
) -> list[tuple[int, bytes | None]]:
    table = topic.scan(start=start, end=end).to_table()
    pairs = zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True)
    return list(pairs)


class TestDivergentTail:
    """The first leader wrote three more records than the next one ever saw."""

    TAIL = 3

    @pytest.fixture
    def truth(self) -> list[tuple[int, bytes | None]]:
        """What the partition holds without any change of leader."""
        store = ObjectStore(str(KAFKA / "two-partitions" / REMOTE))
        topic = Tier(open_storage(store)).topic("two-partitions")
        table = topic.scan([0], end=111, columns=["offset", "value"]).to_table()
        offsets, contents = table["offset"].to_pylist(), table["value"].to_pylist()
        return list(zip(offsets, contents, strict=True))

    @pytest.fixture
    def store(self, memory: ObjectStore) -> ObjectStore:
        """Segment 0-53 with a lost tail 54-56 of epoch 0, segment 54-110 of epoch 1."""
        real = real_segments()
        tail = encode_batch(records(54, self.TAIL, timestamp=LATE, value="lost"))
        fill(memory, change(real[0], epochs=[(0, 0)], epoch=0, tail=tail))
        fill(memory, change(real[54], epochs=[(0, 0), (1, 54)], epoch=1))
        return memory

    def test_it_is_never_served(
        self, store: ObjectStore, truth: list[tuple[int, bytes | None]]
    ) -> None:
        topic = topic_of(store)
        assert topic.end_offsets() == {0: 111}
        assert values(topic) == truth
        for start in (50, 53, 54, 55, 57):
            assert values(topic, start=start, end=60) == truth[start:60]
            assert topic.read(0, start, 1)["value"][0].as_py() == truth[start][1]

    def test_its_times_are_not_found(self, store: ObjectStore) -> None:
        assert topic_of(store).offsets_for_times({0: LATE}) == {0: None}

    def test_it_is_all_there_is_until_the_next_leader_s_segment_comes(
        self, memory: ObjectStore
    ) -> None:
        real = real_segments()
        tail = encode_batch(records(54, self.TAIL, timestamp=LATE, value="lost"))
        fill(memory, change(real[0], epochs=[(0, 0)], epoch=0, tail=tail))
        topic = topic_of(memory)
        assert topic.end_offsets() == {0: 57}
        assert topic.offsets_for_times({0: LATE})[0] is not None
        fill(memory, change(real[54], epochs=[(0, 0), (1, 54)], epoch=1))
        assert topic.end_offsets() == {0: 111}
        assert topic.offsets_for_times({0: LATE}) == {0: None}


def hand(
    start: int, count: int, epoch: int, value: str, *, timestamp: int = LATE
) -> bytes:
    return encode_batch(
        records(start, count, timestamp=timestamp, value=value), leader_epoch=epoch
    )


def test_a_tail_that_outlives_the_true_log_does_not_lengthen_it(
    memory: ObjectStore,
) -> None:
    log = hand(0, 10, 0, "a") + hand(10, 90, 0, "lost")
    fill(memory, segment(FOLDER, 0, log))
    new = hand(10, 5, 1, "b", timestamp=LATE + 1000)
    fill(memory, segment(FOLDER, 10, new, epochs=[(0, 0), (1, 10)]))
    topic = topic_of(memory)
    assert topic.end_offsets() == {0: 15}
    assert [value for _, value in values(topic)] == [
        *(f"a{n}".encode() for n in range(10)),
        *(f"b{n}".encode() for n in range(10, 15)),
    ]
    found = topic.offsets_for_times({0: LATE + 10})[0]
    assert found is not None
    assert found.offset == 10  # not the lost record of that time


def test_of_two_that_hold_the_same_the_one_that_begins_first_serves(
    memory: ObjectStore,
) -> None:
    first = hand(0, 10, 0, "same") + hand(10, 10, 0, "same")
    second = hand(10, 10, 0, "same") + hand(20, 10, 0, "same")
    fill(memory, segment(FOLDER, 0, first))
    fill(memory, segment(FOLDER, 10, second))
    topic = topic_of(memory)
    assert [offset for offset, _ in values(topic)] == list(range(30))
    spans = [
        (s.segment.start_offset, s.start_offset, s.end_offset)
        for s in topic.scan().plan.slices
    ]
    assert spans == [(0, 0, 20), (10, 20, 30)]


def test_of_two_copies_of_one_segment_each_record_comes_once(
    memory: ObjectStore,
) -> None:
    log = hand(0, 10, 0, "v")
    fill(memory, segment(FOLDER, 0, log, name="one"))
    fill(memory, segment(FOLDER, 0, log, name="other"))
    assert [offset for offset, _ in values(topic_of(memory))] == list(range(10))


def test_a_shorter_copy_of_the_same_start_adds_nothing(memory: ObjectStore) -> None:
    long = hand(0, 10, 0, "v") + hand(10, 10, 0, "v")
    fill(memory, segment(FOLDER, 0, hand(0, 10, 0, "v"), name="short"))
    fill(memory, segment(FOLDER, 0, long, name="long"))
    topic = topic_of(memory)
    assert [offset for offset, _ in values(topic)] == list(range(20))
    assert topic.scan().plan.segments == 1


def test_the_highest_epoch_tells_the_truth_however_long_the_others_are(
    memory: ObjectStore,
) -> None:
    lost = hand(0, 10, 0, "a") + hand(10, 10, 1, "lost")
    fill(memory, segment(FOLDER, 0, lost, epochs=[(0, 0), (1, 10)]))
    true = hand(5, 5, 0, "a") + hand(10, 3, 2, "true")
    fill(memory, segment(FOLDER, 5, true, epochs=[(0, 0), (2, 10)]))
    topic = topic_of(memory)
    assert topic.end_offsets() == {0: 13}
    assert [value for _, value in values(topic)][8:] == [
        b"a8",
        b"a9",
        b"true10",
        b"true11",
        b"true12",
    ]


def test_a_batch_of_an_epoch_that_its_segment_does_not_tell_is_corrupt(
    memory: ObjectStore,
) -> None:
    log = hand(0, 5, 0, "a") + hand(5, 5, 3, "b")
    fill(memory, segment(FOLDER, 0, log, epochs=[(0, 0)]))
    with pytest.raises(CorruptDataError, match="epoch 3"):
        topic_of(memory).scan().to_table()


def test_batches_without_an_epoch_are_served(memory: ObjectStore) -> None:
    log = hand(0, 5, -1, "a") + hand(5, 5, 0, "b")
    fill(memory, segment(FOLDER, 0, log, epochs=[(0, 5)]))
    assert [offset for offset, _ in values(topic_of(memory))] == list(range(10))


@dataclass(frozen=True)
class History:
    """Leaders that came one after the other, and what they tiered.

    Attributes:
        segments: Start, end (exclusive) and the epoch of every offset below the end, in
            the order in which they were tiered.
        truth: The epoch of every offset of the last leader's log.
    """

    segments: tuple[tuple[int, int, tuple[int, ...]], ...]
    truth: tuple[int, ...]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Draw elections, clean and unclean, with segments cut wherever a leader likes."""
    log: list[int] = []
    segments: list[tuple[int, int, tuple[int, ...]]] = []
    epoch = 0
    for _ in range(draw(st.integers(1, 4))):
        kept = draw(st.integers(0, len(log)))
        log = log[:kept] + [epoch] * draw(st.integers(1, 9))
        begin = draw(st.integers(0, kept))
        inner = draw(st.sets(st.integers(begin + 1, len(log)), max_size=4))
        cuts = sorted({begin, *inner, len(log)})
        segments += [(start, end, tuple(log[:end])) for start, end in pairwise(cuts)]
        epoch += draw(st.integers(1, 3))
    return History(tuple(segments), tuple(log))


def stamp(epoch: int, offset: int) -> int:
    return LATE + 1000 * epoch + offset


def tier_history(store: ObjectStore, history: History) -> None:
    for number, (start, end, epochs) in enumerate(history.segments):
        firsts = [(e, epochs.index(e)) for e in sorted(set(epochs))]
        turns = [max(first, start) for _, first in firsts] + [end]
        log = b"".join(
            hand(begin, stop - begin, epoch, f"{epoch}:", timestamp=stamp(epoch, begin))
            for (epoch, _), begin, stop in zip(
                firsts, turns[:-1], turns[1:], strict=True
            )
            if begin < stop
        )
        fill(store, segment(FOLDER, start, log, epochs=firsts, name=str(number)))


@given(histories(), st.data())
def test_the_last_leader_s_log_is_what_is_read(
    history: History, data: st.DataObject
) -> None:
    store = ObjectStore(f"memory://{uuid.uuid4().hex}")
    tier_history(store, history)
    topic = topic_of(store)
    truth = [(at, f"{e}:{at}".encode()) for at, e in enumerate(history.truth)]
    assert topic.beginning_offsets() == {0: 0}
    assert topic.end_offsets() == {0: len(truth)}
    assert values(topic) == truth
    start = data.draw(st.integers(0, len(truth)))
    end = data.draw(st.integers(start, len(truth)))
    assert values(topic, start=start, end=end) == truth[start:end]
    time = stamp(data.draw(st.sampled_from(history.truth)), start)
    found = topic.offsets_for_times({0: time})[0]
    later = [at for at, e in enumerate(history.truth) if stamp(e, at) >= time]
    assert (found and found.offset) == (later[0] if later else None)
    assert found is None or found.leader_epoch == history.truth[found.offset]
    store.delete([entry.key for entry in store.list()])


class TestATopicThatStaysOpen:
    """It has read before a leader's segments came that end another leader's history."""

    def copied(
        self, storage: SingleObject, start: int, count: int, *epochs: tuple[int, int]
    ) -> None:
        log = hand(start, count, len(epochs) - 1, f"{len(epochs) - 1}:")
        checkpoint = format_leader_epochs(LeaderEpochs.of(epochs))
        partition, name = TopicIdPartition("t", 0, Uuid(ID)), uuid.uuid4().bytes
        segment = SegmentMetadata(
            partition, SegmentId.from_bytes(name), start, start + count - 1
        )
        indexes = {IndexType.LEADER_EPOCH: checkpoint}
        storage.copy_log_segment(segment, LogSegmentData(log, indexes))

    @pytest.fixture
    def storage(self, memory: ObjectStore) -> SingleObject:
        storage = SingleObject(memory)
        self.copied(storage, 0, 20, (0, 0))
        return storage

    def test_it_sees_that_the_records_it_would_read_are_lost(
        self, storage: SingleObject
    ) -> None:
        topic = Tier(storage).topic("t")
        assert topic.read(0, 12).num_rows == 8
        self.copied(storage, 20, 5, (0, 0), (1, 10))
        with pytest.raises(CorruptDataError, match="the offsets 12 to 19"):
            topic.read(0, 12)
        self.copied(storage, 10, 10, (0, 0), (1, 10))
        assert topic.read(0, 12)["value"].to_pylist() == [
            b"1:%d" % offset for offset in range(12, 25)
        ]

    def test_it_sees_after_a_while_what_is_beyond_its_page(
        self, storage: SingleObject
    ) -> None:
        now = 0.0
        catalog = SegmentCatalog(storage, clock=lambda: now)
        (partition,) = storage.list_partitions()
        listed = catalog.seek(partition, 0)
        self.copied(storage, 20, 5, (0, 0), (1, 10))
        with mock.patch.object(storage, "seek", return_value=listed):  # a short page
            assert catalog.seek(partition, 0) == listed
            now = 300.0
            assert catalog.seek(partition, 0) == []


def test_an_untrue_checkpoint_hides_no_offset_from_a_time(memory: ObjectStore) -> None:
    files = files_of(KAFKA / "epochs" / REMOTE)
    first = min(key for key in files if key.endswith("leader_epoch_checkpoint"))
    fill(memory, {**files, first: b"0\n2\n0 0\n2 1"})
    topic = Tier(open_storage(memory, "kafka-local")).topic("epochs")
    with pytest.raises(CorruptDataError, match="the offsets 1 to"):
        topic.offsets_for_times({0: 1_700_000_000_156})


@pytest.mark.parametrize("order", [("zstd", None), (None, "zstd", None, None)])
def test_compressing_some_segments_hides_no_other(
    order: tuple[Literal["zstd"] | None, ...], memory: ObjectStore, tmp_path: Path
) -> None:
    # Of a compressed log the listing does not say the size, so it is described, and
    # its epochs are known: those of the others are not.
    Tier(SingleObject(memory)).create_topic("t", topic_id=Uuid(ID)).append(row_of("0"))
    for number, compression in enumerate(order, 1):
        topic = Tier(SingleObject(memory, compression=compression)).topic("t")
        assert topic.append(row_of(str(number))) == range(number, number + 1)
    storage = SingleObject(memory)
    topic = Tier(storage).topic("t")
    count = len(order) + 1
    assert topic.end_offsets() == {0: count}
    assert topic.scan().to_table()["offset"].to_pylist() == list(range(count))
    partitions = storage.list_partitions()
    pull(storage, ObjectStore(str(tmp_path)), partitions)
    assert Tier(source_of(tmp_path)).topic("t").end_offsets() == {0: count}
    storage.delete_log_segment(storage.list_segments(partitions[0])[-2])
    (report,) = verify(storage, partitions)
    assert [problem.kind for problem in report.problems] == [ErrorKind.CORRUPT_DATA]


def row_of(value: str) -> pa.Table:
    return pa.table({"value": pa.array([value.encode()], pa.binary())})


def test_a_segment_without_epochs_hides_no_history_of_the_others() -> None:
    storage = SingleObject(ObjectStore(f"memory://epochs-{uuid.uuid4().hex}"))
    partition = TopicIdPartition("t", 0)
    histories: list[list[tuple[int, int]]] = [[], [(0, 0)], [(0, 0), (1, 20)], [(0, 0)]]
    bounds = [(0, 10), (10, 20), (20, 25), (25, 40)]
    for number, (epochs, (start, end)) in enumerate(
        zip(histories, bounds, strict=True)
    ):
        log = hand(start, end - start, epochs[-1][0] if epochs else -1, "v")
        index = {IndexType.LEADER_EPOCH: format_leader_epochs(LeaderEpochs.of(epochs))}
        storage.copy_log_segment(
            SegmentMetadata(
                partition, SegmentId.from_bytes(bytes([number]) * 16), start, end - 1
            ),
            LogSegmentData(log, index if epochs else {}),
        )
    topic = Tier(storage).topic("t")
    assert topic.end_offsets() == {0: 25}
    assert [offset for offset, _ in values(topic)] == list(range(25))
