"""A plan of columns is the plan of the same segments, one by one."""

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NoReturn, TypeVar

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tieredfs.epochs import NO_EPOCH, LeaderEpochs
from tieredfs.errors import CorruptDataError, NotFoundError
from tieredfs.format.segment.key import SegmentFlag, SegmentKey
from tieredfs.format.segment.key_table import KEY_DTYPE, row_of
from tieredfs.format.segment.native_keys import NativeKeys
from tieredfs.integers import MAX_INT64
from tieredfs.log.planning.columns import first_of, may_diverge, overlaps
from tieredfs.log.planning.overlap import Tile
from tieredfs.log.planning.scan_plan import ScanPlan
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.planning.slice_run import SliceRun, slice_tiles
from tieredfs.log.planning.table_tiles import late_rows
from tieredfs.log.planning.tiles import (
    check_served,
    deciding_ends,
    gaps,
    last_of,
    lineage_of,
    log_end,
    tile,
)
from tieredfs.model import (
    EpochEntry,
    SegmentId,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.storage import SegmentTable
from tieredfs.storage.layouts.single_object.key_rows import KeyRows

_T = TypeVar("_T")


@st.composite
def tables(draw: st.DrawFn, partition: int = 0) -> SegmentTable:
    """Draw segments that follow each other, with gaps or overlaps now and then."""
    reached, rows = draw(st.integers(0, 5)), []
    steps = st.sampled_from(draw(st.sampled_from([[0], [0, 0, 2], [0, 0, -2, 1]])))
    may_be_chunked = draw(st.booleans())
    for number in range(draw(st.integers(0, 7))):
        start = max(reached + draw(steps), 0)
        reached = start + draw(st.integers(1, 4))
        key = SegmentKey(
            reached - 1,
            start,
            draw(st.integers(-1, 5)),
            draw(st.sampled_from([0, 0, 0, 1, -1])),
            draw(st.integers(0, 9)),
            1,
            SegmentFlag(2 * (may_be_chunked and draw(st.booleans()))),
            SegmentId.from_bytes((number + 1).to_bytes(16)),
        )
        rows.append(row_of(key))
    keys = np.array(sorted(rows), KEY_DTYPE)  # as they are listed
    return KeyRows(TopicIdPartition("t", partition), NativeKeys(), keys).table()


def either(call: Callable[[], _T]) -> _T | str:
    """Return a result, or the message of the error instead."""
    try:
        return call()
    except CorruptDataError as error:
        return str(error)


def equal(one: SegmentMetadata, other: SegmentMetadata, start: int, end: int) -> int:
    """Find as many records in both copies."""
    del one, other, start, end
    return 0


def epoch_of(table: SegmentTable) -> Callable[[SegmentMetadata], int | None]:
    """Return what a layout returns that lists the epochs of a table."""
    epochs = {
        one.id: int(epoch)
        for one, epoch in zip(table, table.highest_epochs, strict=True)
    }

    def highest(segment: SegmentMetadata) -> int | None:
        return None if epochs[segment.id] == -1 else epochs[segment.id]

    return highest


def located(part: Tile) -> tuple[int, int]:
    """Return positions as an offset index would."""
    size = part.segment.size or 0
    is_begun = part.start > part.segment.start_offset
    return int(is_begun), size if part.end > (
        part.segment.end_offset or 0
    ) else size - 1


def offsets_of(rows: Iterable[SegmentMetadata]) -> set[int]:
    """Return the offsets that segments have."""
    return {
        at for one in rows for at in range(one.start_offset, (one.end_offset or 0) + 1)
    }


OFFSETS = st.integers(0, 40)
NEAR = st.integers(0, 12)
LINEAGES = st.lists(OFFSETS, min_size=1, max_size=2, unique=True).map(
    lambda starts: tuple(EpochEntry(n, at) for n, at in enumerate(sorted(starts)))
)


@given(tables())
def test_the_bounds_of_a_log_are_the_same(table: SegmentTable) -> None:
    rows = list(table)
    event(f"overlaps: {overlaps(rows)}")
    assert overlaps(table) == overlaps(rows)
    assert overlaps(rows) == any(
        one.start_offset <= (before.end_offset or 0)
        for number, one in enumerate(rows)
        for before in rows[:number]
    )
    assert first_of(table) == first_of(rows) == (rows[0].start_offset if rows else 0)
    assert last_of(table) == last_of(rows)
    assert log_end(table) == log_end(rows)
    assert lineage_of(table) == lineage_of(rows) == LeaderEpochs()
    assert deciding_ends(table) == deciding_ends(rows)


@given(table=tables(), lineage=LINEAGES, is_gone=st.booleans())
def test_several_histories_are_seen_in_columns(
    table: SegmentTable, lineage: tuple[EpochEntry, ...], *, is_gone: bool
) -> None:
    asked = []

    def describe(segment: SegmentMetadata) -> SegmentMetadata:
        asked.append(segment)
        if is_gone:
            raise NotFoundError("gone")
        return replace(segment, leader_epochs=lineage)

    found = [
        may_diverge(some, epoch_of(table), describe) for some in (table, list(table))
    ]
    assert found[0] == found[1]
    assert asked[: len(asked) // 2] == asked[len(asked) // 2 :]
    epochs = LeaderEpochs(lineage)
    is_accepted = [
        epochs.accepts(epoch, end)
        for epoch, end in zip(
            table.highest_epochs.tolist(), table.end_offsets.tolist(), strict=True
        )
    ]
    assert found[0] == (len(asked) > 0 and not is_gone and not all(is_accepted))
    epochs_found = set(table.highest_epochs.tolist()) - {NO_EPOCH}
    assert (len(asked) > 0) == (len(epochs_found) > 1)


@given(table=tables(), start=NEAR, length=NEAR, skip_gaps=st.booleans())
def test_the_tiles_are_the_same(
    table: SegmentTable, start: int, length: int, *, skip_gaps: bool
) -> None:
    rows, end = list(table), start + length

    def tiled(some: Sequence[SegmentMetadata]) -> list[Tile] | str:
        return either(
            lambda: list(
                tile(some, start, end, skip_gaps=skip_gaps, compare=equal, url="u")
            )
        )

    assert tiled(table) == tiled(rows)
    missing = set(range(start, end)) - offsets_of(rows)
    is_refused = isinstance(tiled(table), str)
    assert is_refused == (not skip_gaps and bool(rows) and bool(missing))


@given(tables(), OFFSETS)
def test_the_gaps_between_tiles_are_the_same(table: SegmentTable, start: int) -> None:
    def found(some: Sequence[SegmentMetadata]) -> object:
        end = log_end(some)
        tiles = tile(some, start, end, skip_gaps=True, compare=equal, url="u")
        whole = tile(some, first_of(some), end, skip_gaps=True, compare=equal, url="u")
        served = either(lambda: check_served(some, whole, end, url="u"))
        return gaps(tiles, start), list(tiles[1:]), served

    assert found(table) == found(list(table))
    rows = list(table)
    first, end = first_of(rows), log_end(rows)
    tiles = tile(table, first, end, skip_gaps=True, compare=equal, url="u")
    holes = {at for low, high in gaps(tiles, first) for at in range(low, high)}
    assert holes == set(range(first, end)) - offsets_of(rows)


def test_no_slice_is_made_to_hash_a_run() -> None:
    class Unread(list[SegmentMetadata]):
        """Rows of which none may be asked for."""

        def __getitem__(self, index: object) -> NoReturn:
            raise AssertionError(index)

    column = np.arange(3)
    epochs = column.astype(np.int32)
    table = SegmentTable(Unread(), column, column, column, column, epochs)
    runs = [SliceRun(table, 0, 0, 3, 3, LeaderEpochs()) for _ in range(2)]
    assert len(set(map(hash, runs))) == 1


@given(tables(), OFFSETS, st.integers(1, 40), st.data())
def test_the_slices_are_the_same(
    table: SegmentTable, start: int, length: int, data: st.DataObject
) -> None:
    def found(some: Sequence[SegmentMetadata]) -> Sequence[SegmentSlice]:
        tiles = tile(
            some, start, start + length, skip_gaps=True, compare=equal, url="u"
        )
        return slice_tiles(tiles, located, LeaderEpochs.of([(0, 0)]))

    run, slices = found(table), tuple(found(list(table)))
    assert tuple(run) == slices
    again = found(pickle.loads(pickle.dumps(table)))  # noqa: S301 - our own
    assert (run, hash(run)) == (again, hash(again))
    assert run != "x" * len(slices)
    assert run != run[1:] or not slices
    first, stop = data.draw(st.tuples(st.integers(-8, 8), st.integers(-8, 8)))
    part = run[first:stop]
    assert tuple(part) == slices[first:stop]
    assert tuple(run[::-1]) == slices[::-1]
    stored = pickle.dumps(part)
    assert tuple(pickle.loads(stored)) == slices[first:stop]  # noqa: S301 - our own
    for row in range(-len(slices), len(slices)):
        assert run[row] == slices[row]
    with pytest.raises(IndexError):
        run[len(slices)]


STAMPS = st.integers(-3, 8) | st.sampled_from(
    [MAX_INT64, MAX_INT64 + 1, -MAX_INT64 - 1, -MAX_INT64 - 2]
)


@given(st.lists(STAMPS.filter(lambda at: -MAX_INT64 - 1 <= at <= MAX_INT64)), STAMPS)
def test_the_same_tiles_are_late(latest: list[int], timestamp: int) -> None:
    rows = [
        row_of(SegmentKey(n, n, at, 0, 1, 1, SegmentFlag(0), SegmentId("A" * 22)))
        for n, at in enumerate(latest)
    ]
    keys = np.array(rows, KEY_DTYPE)
    table = KeyRows(TopicIdPartition("t", 0), NativeKeys(), keys).table()
    found = [
        late_rows(
            tile(some, 0, len(rows), skip_gaps=True, compare=equal, url="u"), timestamp
        )
        for some in (table, list(table))
    ]
    expected = [n for n, at in enumerate(latest) if at >= timestamp]
    assert found == [expected, expected]


def naively_split(slices: Sequence[SegmentSlice], target: int) -> list[list[object]]:
    """Bundle slices one by one."""
    parts: list[list[object]] = []
    held = 0
    for part in slices:
        if not parts or held + part.size > target:
            parts.append([])
            held = 0
        parts[-1].append(part)
        held += part.size
    return parts


@given(st.tuples(tables(0), tables(1), tables(2)), st.integers(1, 30))
def test_a_plan_and_its_parts_have_the_slices_and_their_totals(
    found: tuple[SegmentTable, ...], target: int
) -> None:
    partitions = []
    for table in found:
        end = log_end(table)
        tiles = tile(table, 0, end, skip_gaps=True, compare=equal, url="u")
        slices = slice_tiles(tiles, located, LeaderEpochs())
        partitions += [slices] * (len(slices) > 0)
    plan = ScanPlan(tuple(partitions), 4)
    assert tuple(plan) == plan.slices == sum(map(tuple, partitions), ())
    assert len(plan) == len(plan.slices)
    assert plan.size == sum(part.size for part in plan)
    assert plan.requests == sum(-(-part.size // 4) for part in plan)
    assert plan.segments == len({(s.segment.partition, s.segment.id) for s in plan})
    assert [list(part) for part in plan.split(target)] == naively_split(
        plan.slices, target
    )
    assert all(
        map(len, (one for part in plan.split(target) for one in part.partitions))
    )
