"""Segments that overlap expire as one log: without a hole, and without other records.

They do after a change of leader, when several replicas are archived, and when a cleaner
has merged what was archived before.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from typing_extensions import override

from support.log_directories import ID
from support.segments import records, segment
from support.stores import fill
from support.wire import encode_batch
from tieredfs import (
    EpochEntry,
    ObjectStore,
    SegmentId,
    SegmentMetadata,
    Tier,
    TopicIdPartition,
    Uuid,
)
from tieredfs.epochs import LeaderEpochs
from tieredfs.log.planning.overlap import Tile
from tieredfs.log.planning.tiles import gaps, log_end, tile
from tieredfs.log.retention.expire import expire
from tieredfs.log.retention.plan import Retention, expired_segments, expired_until
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.testing.stores import InterceptedStore

FOLDER = f"t-0-{ID}"
PARTITION = TopicIdPartition("t", 0, Uuid(ID))
FIRST_MS = 1_000
END = 24
"""End of the drawn logs."""

_T = TypeVar("_T")


def put(
    store: ObjectStore,
    start: int,
    end: int,
    epochs: Sequence[tuple[int, int]],
    *,
    value: str = "v",
) -> None:
    """Store a segment whose records are a millisecond apart, as their offsets are."""
    log = encode_batch(
        records(start, end - start, timestamp=FIRST_MS + start, value=value),
        leader_epoch=epochs[-1][0],
    )
    fill(store, segment(FOLDER, start, log, epochs=epochs, name=f"{end}"))


def expire_before(store: ObjectStore, offset: int) -> list[tuple[int, int | None]]:
    """Let what is older than an offset expire; return what was deleted."""
    (found,) = expire(
        KafkaLocal(store),
        [PARTITION],
        Retention(max_age_ms=0),
        owner="test",
        now_ms=lambda: FIRST_MS + offset - 1,
    )
    assert (found.log_start, found.error) == (offset, None)
    return [(one.start_offset, one.end_offset) for one in found.segments]


def values(store: ObjectStore) -> list[bytes]:
    scanned = Tier(KafkaLocal(store)).topic("t").scan().to_table()
    return [bytes(value) for value in scanned["value"].to_pylist()]


class TestALeaderThatLostItsLastRecords:
    """Epoch 1 wrote up to 120; epoch 2 began at 80, and had none of that."""

    @pytest.fixture
    def store(self, memory: ObjectStore) -> ObjectStore:
        put(memory, 0, 80, [(1, 0)])
        put(memory, 80, 120, [(1, 0)], value="lost")
        put(memory, 80, 100, [(1, 0), (2, 80)])
        return memory

    def test_its_segment_goes_with_the_one_that_counts(
        self, store: ObjectStore
    ) -> None:
        put(store, 100, 140, [(1, 0), (2, 80)])
        assert expire_before(store, 100) == [(80, 119), (0, 79), (80, 99)]
        topic = Tier(KafkaLocal(store)).topic("t")
        assert topic.beginning_offsets() == {0: 100}
        assert values(store) == [f"v{n}".encode() for n in range(100, 140)]

    def test_its_records_are_not_what_is_left_when_all_of_the_log_expires(
        self, store: ObjectStore
    ) -> None:
        put(store, 120, 130, [(1, 0)], value="lost")
        expire_before(store, 100)
        assert KafkaLocal(store).list_partitions() == []

    def test_it_stays_while_it_serves_what_it_had_before(
        self, memory: ObjectStore
    ) -> None:
        put(memory, 0, 40, [(1, 0)])
        put(memory, 40, 120, [(1, 0)])
        put(memory, 80, 100, [(1, 0), (2, 80)])
        expire_before(memory, 40)
        assert values(memory) == [f"v{n}".encode() for n in range(40, 100)]


class Seen(InterceptedStore):
    """A store where a reader looks after each deletion."""

    look: Callable[[], object]

    @override
    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        answer = execute()
        if verb == "delete":
            self.look()
        return answer


def test_no_reader_finds_a_hole_while_a_merged_segment_expires(
    memory: ObjectStore,
) -> None:
    """A cleaner has merged three segments, of which one was archived before."""
    for start, end in ((0, 60), (20, 40), (60, 80), (80, 100)):
        put(memory, start, end, [(1, 0)])
    seen: list[int] = []

    def look() -> None:
        seen.append(len(values(memory)))

    store = Seen._onto(memory)
    store.look = look
    expire_before(store, 80)
    assert seen[-1] == 20
    assert set(seen) == {100, 40, 20}


def described(
    number: int, start: int, end: int, epochs: Sequence[EpochEntry]
) -> SegmentMetadata:
    return SegmentMetadata(
        PARTITION,
        SegmentId.from_bytes(number.to_bytes(16)),
        start,
        end - 1,
        start,
        tuple(one for one in epochs if one.start_offset < end),
        end - start,
        record_count=end - start,
    )


@st.composite
def archives(draw: st.DrawFn) -> tuple[list[SegmentMetadata], LeaderEpochs]:
    """Draw the segments of some replicas, of which some lost records, and the truth."""
    turns = sorted(draw(st.sets(st.integers(1, END - 1), max_size=3)))
    truth = [EpochEntry(n + 1, start) for n, start in enumerate([0, *turns])]
    made: list[SegmentMetadata] = []
    for _ in range(draw(st.integers(1, 3))):
        cuts = sorted(draw(st.sets(st.integers(1, END - 1), max_size=6)))
        for start, end in pairwise([0, *cuts, END]):
            made.append(described(len(made), start, end, truth))
    for number, turn in enumerate(turns, 1):
        if draw(st.booleans()):
            start = draw(st.integers(0, turn + 2))
            end = draw(st.integers(max(start, turn) + 1, END + 6))
            made.append(described(len(made), start, end, truth[:number]))
    made.sort(key=lambda one: (one.start_offset, one.id))
    return made, LeaderEpochs(tuple(truth))


def tiled(segments: Sequence[SegmentMetadata]) -> Sequence[Tile]:
    return tile(
        segments,
        segments[0].start_offset,
        log_end(segments),
        skip_gaps=True,
        compare=lambda *_: 0,
        url="memory://",
    )


@given(archives(), st.integers(0, END))
def test_after_each_deletion_what_is_left_is_the_end_of_the_same_log(
    drawn: tuple[list[SegmentMetadata], LeaderEpochs], start_offset: int
) -> None:
    segments, truth = drawn
    tiles = tiled(segments)
    limit = Retention(start_offset=start_offset)
    until = expired_until(tiles, limit, 0, lambda one: one)
    assume(until is not None)
    log_start = until or 0
    deleted = expired_segments(segments, tiles, log_start, frozenset())
    for count in range(1, len(deleted) + 1):
        rest = [one for one in segments if one not in deleted[:count]]
        if not rest:
            assert log_start == END
            continue
        left = tiled(rest)
        first = rest[0].start_offset
        assert first <= log_start
        assert (left[0].start, left[-1].end) == (first, END)
        assert gaps(left, first) == []
        for one, start, end in left:
            own = LeaderEpochs(one.leader_epochs or ())
            assert own.agreement_end(truth, start, end) == end
