"""Objects of one log with different ends, by the descriptions of segments alone."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.log_directories import ID
from tieredfs import (
    EpochEntry,
    ObjectStore,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.epochs import NO_EPOCH, LeaderEpochs
from tieredfs.log.planning.end_claims import beyond, is_disputed, same_log, was_cleaned
from tieredfs.storage.layouts.single_object.layout import SingleObject

END = 12
CLAIMED = range(3, 9)
"""The offsets that only the longer of two objects claims."""


def described(
    number: int,
    start: int,
    end: int | None,
    epochs: Sequence[tuple[int, int]] = (),
    *,
    count: int | None = None,
) -> SegmentMetadata:
    """Say of the offsets ``[start, end)`` what is asked of a segment."""
    return SegmentMetadata(
        TopicIdPartition("t", 0, ID),
        SegmentId.from_bytes(bytes([number]) * 16),
        start,
        None if end is None else end - 1,
        leader_epochs=tuple(EpochEntry(*entry) for entry in epochs),
        record_count=count,
    )


SHORTER = described(3, 0, CLAIMED.start)
LONGER = described(3, 0, CLAIMED.stop)


def offsets(segment: SegmentMetadata) -> range:
    assert segment.end_offset is not None
    return range(segment.start_offset, segment.end_offset + 1)


@st.composite
def segments(draw: st.DrawFn) -> list[SegmentMetadata]:
    found = []
    for number in draw(st.lists(st.sampled_from([1, 2, 4, 5]), unique=True)):
        start = draw(st.integers(0, END - 1))
        end = draw(st.integers(start + 1, END))
        turn = draw(st.none() | st.tuples(st.integers(1, 2), st.integers(1, END)))
        epochs = [(0, draw(st.integers(0, 1))), *([turn] if turn else [])]
        rising = epochs if epochs[0][1] < epochs[-1][1] else epochs[:1]
        found.append(described(number, start, end, rising, count=end - start))
    return found


def test_only_another_end_of_the_same_object_is_another_end() -> None:
    other_end = replace(SHORTER, end_offset=5)
    stored = [
        described(8, 0, 6),  # another object
        replace(other_end, start_offset=1),  # … and another segment of the same id
        replace(SHORTER, version="2"),
        replace(SHORTER, end_offset=None),  # its end is not known
        other_end,
        LONGER,
    ]
    assert same_log(SHORTER, stored) == [other_end, LONGER]


@given(segments())
def test_beyond_the_shorter_end_are_other_segments_with_offsets_there(
    others: list[SegmentMetadata],
) -> None:
    stored = [SHORTER, *others, described(7, 4, None), LONGER]
    expected = [one for one in others if set(offsets(one)) & set(CLAIMED)]
    assert beyond(SHORTER, LONGER, stored) == expected


def agree(one: SegmentMetadata, other: SegmentMetadata, offset: int) -> bool:
    epochs = [
        LeaderEpochs(s.leader_epochs or ()).epoch_at(offset) for s in (one, other)
    ]
    return epochs[0] == epochs[1] or NO_EPOCH in epochs


@given(segments(), st.booleans(), st.data())
def test_an_end_is_disputed_by_the_latest_copy_with_records_behind_it(
    others: list[SegmentMetadata], is_one_uncounted: bool, data: st.DataObject
) -> None:
    """Piece by piece of what is claimed: within one the same segments have offsets."""
    drawn = st.sets(st.integers(0, END - 1), max_size=3)
    held = {one.id: set(offsets(one)) - data.draw(drawn) for one in others}
    held[LONGER.id] = data.draw(drawn)
    if others and is_one_uncounted:
        others[0] = replace(others[0], record_count=None)

    def compare(
        one: SegmentMetadata, other: SegmentMetadata, first: int, last: int
    ) -> int:
        assert first < last
        span = set(range(first, last))
        return len(held[one.id] & span) - len(held[other.id] & span)

    def is_against(one: SegmentMetadata, piece: Collection[int]) -> bool:
        def count(segment: SegmentMetadata) -> int:
            return len(held[segment.id] & set(piece))

        return one.record_count is None or (
            count(LONGER) < count(one)
            and not any(
                count(other) < count(one)
                and all(agree(one, other, offset) for offset in piece)
                for other in others
                if set(piece) <= set(offsets(other))
            )
        )

    turns = {turn for one in others for turn in (one.start_offset, offsets(one).stop)}
    pieces = [
        list(piece)
        for _, piece in groupby(
            CLAIMED, key=lambda offset: len({turn for turn in turns if turn <= offset})
        )
    ]
    expected = any(
        is_against(one, piece)
        for piece in pieces
        for one in others
        if set(piece) <= set(offsets(one))
    )
    assert is_disputed(SHORTER, LONGER, others, compare) is expected


def test_an_earlier_copy_with_more_records_settles_no_dispute() -> None:
    counts = {LONGER: 0, described(1, 3, 9): 6, described(2, 3, 9): 5}
    others = [replace(one, record_count=count) for one, count in counts.items()][1:]
    assert is_disputed(
        SHORTER, LONGER, others, lambda one, other, *_: counts[one] - counts[other]
    )


def test_the_same_records_dispute_no_end() -> None:
    others = [described(1, 3, 9, count=6), described(2, 3, 9, count=6)]
    assert not is_disputed(SHORTER, LONGER, others, lambda *_: 0)


class _Counted(SingleObject):
    """A layout that says of each segment how many records it has."""

    counts: Mapping[SegmentMetadata, int | None]

    def describe(
        self,
        metadata: SegmentMetadata,
        indexes: SegmentIndexes | None = None,  # noqa: ARG002 - the layout's signature
    ) -> SegmentMetadata:
        return replace(metadata, record_count=self.counts[metadata])


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ([], False),
        ([(4, 10, 6)], False),  # a record at each offset
        ([(4, 10, 5)], True),
        ([(4, 10, None)], False),  # not counted
        ([(4, None, 1)], False),
        ([(4, 10, 6), (10, 20, None), (20, 30, 9)], True),
    ],
)
def test_a_cleaner_has_been_where_an_offset_has_no_record(
    memory: ObjectStore,
    stored: list[tuple[int, int | None, int | None]],
    *,
    expected: bool,
) -> None:
    target = _Counted(memory)
    target.counts = {described(1, start, end): count for start, end, count in stored}
    assert was_cleaned(target, target.counts) is expected
