"""Which segment serves which offset, by the descriptions of segments alone."""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.log_directories import ID
from tieredfs import EpochEntry, SegmentId, SegmentMetadata, TopicIdPartition
from tieredfs.epochs import LeaderEpochs
from tieredfs.log.planning.overlap import (
    Compare,
    Tile,
    contradictions,
    serve,
    stale_pairs,
)

END = 12
ONE_LEADER = ((0, 0),)
Epochs = Sequence[tuple[int, int]]


def described(
    number: int,
    start: int,
    end: int,
    epochs: Epochs = ONE_LEADER,
    *,
    count: int | None = None,
) -> SegmentMetadata:
    """Say of the offsets ``[start, end)`` what ``serve`` has to know of a segment."""
    return SegmentMetadata(
        TopicIdPartition("t", 0, ID),
        SegmentId.from_bytes(bytes([number]) * 16),
        start,
        end - 1,
        leader_epochs=tuple(EpochEntry(*entry) for entry in epochs),
        record_count=count,
    )


def without(gone: Mapping[SegmentMetadata, Collection[int]]) -> Compare:
    """Compare segments that have all their records but those that are gone."""

    def held(segment: SegmentMetadata, first: int, last: int) -> int:
        assert segment.end_offset is not None
        low = max(first, segment.start_offset)
        high = min(last, segment.end_offset + 1)
        return len(set(range(low, high)) - set(gone.get(segment, ())))

    def compare(
        one: SegmentMetadata, other: SegmentMetadata, first: int, last: int
    ) -> int:
        assert first < last, "where there is no offset, nothing is to be compared"
        return held(one, first, last) - held(other, first, last)

    return compare


def never(*_: object) -> int:
    pytest.fail("copies were compared")


def history(segment: SegmentMetadata) -> LeaderEpochs:
    return LeaderEpochs(segment.leader_epochs or ())


def counts(segment: SegmentMetadata, offset: int, lineage: LeaderEpochs) -> bool:
    assert segment.end_offset is not None
    return segment.start_offset <= offset <= segment.end_offset and lineage.accepts(
        history(segment).epoch_at(offset), offset
    )


@st.composite
def histories(draw: st.DrawFn) -> tuple[tuple[int, int], ...]:
    numbers = draw(st.lists(st.integers(0, 3), max_size=3, unique=True))
    size = len(numbers)
    starts = draw(
        st.lists(st.integers(0, END), min_size=size, max_size=size, unique=True)
    )
    return tuple(zip(sorted(numbers), sorted(starts), strict=True))


@st.composite
def copies(
    draw: st.DrawFn, lineage: Epochs, *, is_dense: bool = False
) -> list[SegmentMetadata]:
    """Draw segments, many of which follow the lineage."""
    found = []
    for number in draw(st.permutations(range(1, draw(st.integers(1, 5)) + 1))):
        start = draw(st.integers(0, END - 1))
        end = draw(st.integers(start + (1 if is_dense else 0), END))
        some = draw(st.sets(st.sampled_from(lineage))) if lineage else ()
        epochs = draw(st.sampled_from([tuple(lineage), sorted(some)]) | histories())
        below = [(epoch, first) for epoch, first in epochs if first < end]
        count = end - start if is_dense else None
        found.append(described(number, start, end, below, count=count))
    return found


def by_offset(tiles: Sequence[Tile]) -> dict[int, SegmentMetadata]:
    """Return what serves each offset; the tiles are in order and as few as can be."""
    found = {
        offset: segment
        for segment, *span in tiles
        for offset in range(span[0], span[1])
    }
    assert [at for _, *span in tiles for at in range(span[0], span[1])] == sorted(found)
    for (before, _, stop), (segment, first, _) in pairwise(tiles):
        assert stop < first or before != segment
    assert all(first < stop for _, first, stop in tiles)
    return found


@given(histories(), st.booleans(), st.data())
def test_each_offset_of_the_true_history_is_served_by_a_copy_of_that_history(
    epochs: Epochs, is_dense: bool, data: st.DataObject
) -> None:
    segments = data.draw(copies(epochs, is_dense=is_dense))
    start = data.draw(st.integers(0, END))
    end = data.draw(st.integers(start, END))
    lineage = LeaderEpochs.of(epochs)
    gone = {
        one: data.draw(st.sets(st.integers(0, END))) if not is_dense else ()
        for one in segments
    }
    tiles = serve(segments, lineage, start, end, without(gone))
    found = by_offset(tiles)
    assert set(found) <= set(range(start, end))
    for offset in range(start, end):
        able = [one for one in segments if counts(one, offset, lineage)]
        assert found[offset] in able if able else offset not in found
    if not is_dense:
        mixed = data.draw(st.permutations(segments))
        assert serve(mixed, lineage, start, end, without(gone)) == tiles


@given(histories(), st.data())
def test_of_copies_that_hold_the_same_one_goes_on_until_it_ends(
    epochs: Epochs, data: st.DataObject
) -> None:
    """Offset by offset: the one that is read, one that begins here, the first one."""
    segments = data.draw(copies(epochs))
    start = data.draw(st.integers(0, END))
    end = data.draw(st.integers(start, END))
    lineage = LeaderEpochs.of(epochs)

    def agreed_end(one: SegmentMetadata) -> int:
        assert one.end_offset is not None
        return history(one).agreement_end(lineage, one.start_offset, one.end_offset + 1)

    expected: dict[int, SegmentMetadata] = {}
    for offset in range(start, end):
        able = [one for one in segments if counts(one, offset, lineage)]
        if able and expected.get(offset - 1) in able:
            expected[offset] = expected[offset - 1]
        elif able:
            here = [one for one in able if one.start_offset == offset] or able
            expected[offset] = min(
                here, key=lambda one: (one.start_offset, -agreed_end(one), one.id)
            )
    assert by_offset(serve(segments, lineage, start, end, lambda *_: 0)) == expected


def test_a_copy_that_counts_again_behind_a_gap_does_not_go_on() -> None:
    old = described(1, 0, 10, [(0, 0), (2, 6)])
    new = described(2, 6, 12, [(0, 0), (1, 4), (2, 6)])
    tiles = serve([old, new], history(new), 0, 12, without({}))
    assert tiles == [(old, 0, 4), (new, 6, 12)]


def test_the_beginnings_of_a_segment_are_compared_with_nothing() -> None:
    epochs = [(0, 0), (1, 6), (2, 11)]
    pushed = [
        described(9 - end // 2, 2, end, [e for e in epochs if e[1] < end], count=size)
        for size, end in ((2, 4), (5, 7), (10, 12))
    ]
    for lineage in (epochs, [(0, 0), (3, 3)]):  # it may leave the history early
        (tile,) = serve(pushed, LeaderEpochs.of(lineage), 0, 12, never)
        assert tile[0] == pushed[-1]


def test_of_copies_that_leave_the_history_together_the_smallest_id_decides() -> None:
    long = described(2, 0, 10, [(0, 0), (1, 4)])
    short = described(1, 0, 6, [(0, 0), (1, 4)])
    lineage = LeaderEpochs.of(ONE_LEADER)
    assert serve([long, short], lineage, 0, 10, without({})) == [(short, 0, 4)]


@pytest.mark.parametrize(("mine", "other"), [(1, 2), (2, 1)])
def test_a_beginning_of_another_history_counts(mine: int, other: int) -> None:
    true = described(1, 0, 6, [(0, 0), (mine, 3)], count=6)
    longer = described(2, 0, 9, [(0, 0), (other, 3)], count=9)
    assert serve([true, longer], history(true), 0, 9, lambda *_: 0) == [(true, 0, 6)]


def test_a_beginning_that_a_cleaner_has_been_in_counts() -> None:
    whole, cleaned = described(1, 0, 10, count=10), described(2, 0, 5, count=4)
    tiles = serve([whole, cleaned], history(whole), 0, 10, without({cleaned: [3]}))
    assert tiles == [(cleaned, 0, 5), (whole, 5, 10)]


class TestTheOrderOfChoice:
    """Two copies at the end hold the same: it shows in them from where was chosen."""

    P = described(11, 20, 26)
    Q = described(12, 24, 30)
    SHORT = described(13, 25, 26)
    LAST = described(14, 30, 32)
    ONWARDS = ((P, 20, 26), (Q, 26, 30), (LAST, 30, 32))
    BACKWARDS = ((P, 20, 24), (Q, 24, 30), (LAST, 30, 32))

    def tiles(self, gone: Mapping[SegmentMetadata, Collection[int]]) -> list[Tile]:
        segments = [*gone, self.P, self.Q, self.SHORT, self.LAST]
        return serve(segments, LeaderEpochs.of(ONE_LEADER), 0, 32, without(gone))

    def test_it_begins_at_the_start_where_one_that_is_nowhere_older_can_be_read(
        self,
    ) -> None:
        older = described(1, 0, 20)
        first, cleaned = described(2, 0, 10), described(3, 10, 20)
        gone: dict[SegmentMetadata, list[int]] = {older: [], first: [], cleaned: [15]}
        expected = [(first, 0, 10), (cleaned, 10, 20), *self.ONWARDS]
        assert self.tiles(gone) == expected

    def test_it_begins_at_the_end_where_an_older_state_would_come_first(self) -> None:
        merged = described(1, 0, 20)
        first, further = described(2, 0, 10), described(3, 10, 20)
        gone: dict[SegmentMetadata, list[int]] = {merged: [5], first: [], further: [15]}
        expected = [(first, 0, 10), (further, 10, 20), *self.BACKWARDS]
        assert self.tiles(gone) == expected

    def test_it_begins_at_the_start_where_no_order_gives_one_state(self) -> None:
        merged, further = described(1, 0, 20), described(3, 10, 20)
        expected = [(merged, 0, 10), (further, 10, 20), *self.ONWARDS]
        assert self.tiles({merged: [5], further: [15]}) == expected

    @pytest.mark.parametrize(
        ("fewer", "more"), [([15, 16], [5]), ([5, 6], [15])], ids=["end", "start"]
    )
    def test_copies_are_compared_by_all_that_they_share_not_by_what_is_read(
        self, fewer: list[int], more: list[int]
    ) -> None:
        cleaned, older = described(2, 0, 20), described(1, 0, 20)
        half = described(3, 0, 10)  # what is read may change where it ends
        expected = [(cleaned, 0, 20), *self.ONWARDS]
        assert self.tiles({cleaned: fewer, older: more, half: []}) == expected


def test_the_latest_of_the_copies_counts_although_it_is_older_elsewhere() -> None:
    latest, older = described(1, 0, 20), described(2, 2, 10)
    before, behind = described(3, 0, 2), described(4, 10, 20)
    # No order of choice gives one state of these two: that from the start is taken.
    merged, further = described(5, 20, 40), described(6, 30, 40)
    gone = {latest: [5], before: [1], behind: [15, 16], merged: [25], further: [35]}
    segments = [*gone, older]
    assert serve(segments, history(latest), 0, 40, without(gone)) == [
        (before, 0, 2),
        (latest, 2, 10),
        (behind, 10, 20),
        (merged, 20, 30),
        (further, 30, 40),
    ]


def test_where_a_copy_is_of_the_true_history_again_it_is_compared_there() -> None:
    true = described(2, 0, 10, [(0, 0), (1, 4), (2, 6)])
    other = described(1, 0, 10, [(0, 0), (2, 6)])
    gone = {other: [1], true: [7]}
    tiles = serve([other, true], history(true), 0, 10, without(gone))
    assert tiles == [(other, 0, 4), (true, 4, 10)]


@given(histories(), st.data())
def test_what_is_older_than_what_comes_behind_it_is_found(
    epochs: Epochs, data: st.DataObject
) -> None:
    segments = data.draw(copies(epochs))
    lineage = LeaderEpochs.of(epochs)
    gone = {one: data.draw(st.sets(st.integers(0, END))) for one in segments}
    tiles = [Tile(one, number, number + 1) for number, one in enumerate(segments)]

    def shared(one: SegmentMetadata) -> set[int]:
        assert one.end_offset is not None
        start, end = one.start_offset, one.end_offset + 1
        return set(range(start, history(one).agreement_end(lineage, start, end)))

    expected = {
        (before, tile)
        for number, tile in enumerate(tiles)
        for before in tiles[:number]
        for common in [shared(before[0]) & shared(tile[0])]
        if len(common - gone[tile[0]]) < len(common - gone[before[0]])
    }
    found = list(stale_pairs(tiles, lineage, without(gone)))
    assert set(found) == expected
    assert len(found) == len(expected)


def test_what_ends_where_all_behind_it_begin_is_compared_with_none_of_them() -> None:
    one, other = described(1, 0, 5), described(2, 5, 10)
    assert not list(
        stale_pairs([Tile(one, 0, 5), Tile(other, 5, 10)], history(one), never)
    )


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 2), st.integers(3, 6))))
def test_objects_of_one_log_contradict_one_another_by_their_ends(
    objects: list[tuple[int, int, int]],
) -> None:
    segments = [described(*one) for one in objects]
    ends: dict[tuple[int, int], list[int]] = {}
    for number, start, end in sorted(set(objects)):
        ends.setdefault((number, start), []).append(end)
    expected = {
        (described(*key, shorter), described(*key, longer))
        for key, found in ends.items()
        for shorter, longer in pairwise(found)
    }
    found = list(contradictions(segments))
    assert set(found) == expected
    assert len(found) == len(expected)
