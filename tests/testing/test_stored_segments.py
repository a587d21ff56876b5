"""Which answers of a cache are those of the stores, and what is said of the others."""

import struct

import pytest

from tieredfs.format.index.offset import OffsetPosition
from tieredfs.format.index.txn import (
    AbortedTransaction,
    CollectedAborts,
    TransactionIndex,
)
from tieredfs.model import IndexType, SegmentIndexes
from tieredfs.testing.cache_machine.pool import POOL
from tieredfs.testing.cache_machine.stored_segments import StoredSegments

ONE, OTHER = POOL[:2]
FIRST = ONE.metadata.start_offset
OFFSETS = struct.pack(">iiii", 10, 100, 20, 200)
TIMES = struct.pack(">qiqi", 5000, 10, 9000, 20)
ABORT = AbortedTransaction(7, FIRST + 10, FIRST + 20, FIRST + 21)
CONTENT = {
    IndexType.OFFSET: OFFSETS,
    IndexType.TIMESTAMP: TIMES,
    IndexType.TRANSACTION: TransactionIndex((ABORT,)).encode(),
}
LAYOUT = b"the layout of one"


def indexes(content: dict[IndexType, bytes], layout: bytes = LAYOUT) -> SegmentIndexes:
    return SegmentIndexes({k: memoryview(v) for k, v in content.items()}, layout)


def stored() -> StoredSegments:
    made = StoredSegments()
    made.indexes = {
        ONE: indexes(CONTENT),
        OTHER: indexes({IndexType.OFFSET: struct.pack(">ii", 30, 300)}, b""),
    }
    return made


class TestIndexes:
    def test_those_of_the_segment_are_right(self) -> None:
        stored().check_indexes("get", ONE, indexes(CONTENT))

    @pytest.mark.parametrize(
        ("found", "message"),
        [
            (stored().indexes[OTHER], f"those of {OTHER}"),
            (
                indexes({k: v for k, v in CONTENT.items() if k != IndexType.OFFSET}),
                "no index is lost: get returned no OFFSET index",
            ),
            (
                indexes({**CONTENT, IndexType.TIMESTAMP: TIMES[:-1] + b"x"}),
                "to the byte: get returned another TIMESTAMP index",
            ),
            (
                indexes({**CONTENT, IndexType.LEADER_EPOCH: b"0\n0\n"}),
                "does not have: get returned .*LEADER_EPOCH.* as well",
            ),
            (indexes(CONTENT, b"another"), "a layout gets back its data: get returned"),
        ],
        ids=["another's", "one is lost", "another byte", "one more", "another layout"],
    )
    def test_others_are_wrong(self, found: SegmentIndexes, message: str) -> None:
        with pytest.raises(AssertionError, match=message):
            stored().check_indexes("get", ONE, found)

    def test_those_that_can_be_written_to_are_wrong(self) -> None:
        found = SegmentIndexes(
            {k: memoryview(bytearray(v)) for k, v in CONTENT.items()}, LAYOUT
        )
        with pytest.raises(AssertionError, match="what is cached is read-only"):
            stored().check_indexes("get", ONE, found)

    def test_a_layout_is_that_of_the_segment(self) -> None:
        stored().check_layout("layout_of", ONE, LAYOUT)
        with pytest.raises(AssertionError, match="a layout gets back its data"):
            stored().check_layout("layout_of", OTHER, LAYOUT)


class TestEntries:
    def test_one_takes_its_indexes_its_layout_and_a_header_at_most(self) -> None:
        whole = sum(map(len, CONTENT.values())) + len(LAYOUT)
        assert whole < stored().most_bytes(ONE) <= whole + 1024

    def test_a_file_is_the_entry_of_the_segment_whose_indexes_are_all_in_it(
        self,
    ) -> None:
        content = b"header" + b"padding".join([*CONTENT.values(), LAYOUT])
        assert stored().owner(content) == ONE

    @pytest.mark.parametrize(
        "lost", [*CONTENT.values(), LAYOUT], ids=[*CONTENT, "layout"]
    )
    def test_a_file_that_lacks_an_index_or_the_layout_is_no_entry(
        self, lost: bytes
    ) -> None:
        kept = [part for part in (*CONTENT.values(), LAYOUT) if part != lost]
        assert stored().owner(b"|".join([*kept, lost[:-1]])) is None


class TestLookups:
    def test_an_offset_is_found_at_the_last_entry_at_or_below(self) -> None:
        for offset, found in (
            (9, OffsetPosition(FIRST, 0)),
            (10, OffsetPosition(FIRST + 10, 100)),
            (19, OffsetPosition(FIRST + 10, 100)),
            (20, OffsetPosition(FIRST + 20, 200)),
        ):
            stored().check_offset("lookup", ONE, FIRST + offset, found)
        with pytest.raises(AssertionError, match="last entry at or below: lookup"):
            stored().check_offset(
                "lookup", ONE, FIRST + 19, OffsetPosition(FIRST + 20, 200)
            )

    def test_several_offsets_are_found_at_their_positions_in_their_order(self) -> None:
        asked = [FIRST + 20, FIRST + 9, FIRST + 10]
        stored().check_positions("lookup", ONE, asked, [200, 0, 100])
        for wrong in ([0, 100, 200], [200, 0], [200, 0, 200]):
            with pytest.raises(AssertionError, match="last entry at or below: lookup"):
                stored().check_positions("lookup", ONE, asked, wrong)

    def test_a_time_is_found_where_its_offset_is(self) -> None:
        for time, found in (
            (4999, OffsetPosition(FIRST, 0)),
            (8999, OffsetPosition(FIRST + 10, 100)),
            (9000, OffsetPosition(FIRST + 20, 200)),
        ):
            stored().check_timestamp("lookup", ONE, time, found)
        with pytest.raises(AssertionError, match="last entry at or below: lookup"):
            stored().check_timestamp(
                "lookup", ONE, 9000, OffsetPosition(FIRST + 10, 100)
            )

    def test_aborts_are_those_that_touch_the_range(self) -> None:
        touched = CollectedAborts((ABORT,), is_complete=True)
        beside = CollectedAborts((), is_complete=False)
        stored().check_aborts("aborted", ONE, FIRST, FIRST + 15, touched)
        stored().check_aborts("aborted", ONE, FIRST + 21, FIRST + 30, beside)
        with pytest.raises(AssertionError, match="finds a segment's aborts: aborted"):
            stored().check_aborts("aborted", ONE, FIRST, FIRST + 15, beside)
        with pytest.raises(AssertionError, match="finds a segment's aborts: aborted"):
            stored().check_aborts("aborted", ONE, FIRST + 21, FIRST + 30, touched)

    def test_a_segment_without_an_index_finds_its_beginning_and_no_aborts(self) -> None:
        start = OTHER.metadata.start_offset
        beginning = OffsetPosition(start, 0)
        stored().check_timestamp("lookup", OTHER, 9000, beginning)
        stored().check_aborts(
            "aborted", OTHER, start, start + 9, CollectedAborts((), is_complete=False)
        )
