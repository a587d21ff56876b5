"""Slices are cut at offsets, and located later, without losing or adding a record."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieredfs import Scan, open_tier
from tieredfs.errors import CorruptIndexError, NotFoundError
from tieredfs.log.planning.offset_cut import cut_slices, late_slices, locate_edges
from tieredfs.log.planning.scan_plan import ScanPlan
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.planning.slice_run import SliceRun

KAFKAS = Path(__file__).parent.parent / "data" / "spark-kafka" / "tier"
END = 3000


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Scan]:
    """Return the same offsets as slices of a table, and as single ones."""
    tier = open_tier(tmp_path_factory.mktemp("tier"), plugin="single-object")
    topic = tier.create_topic("o1")
    for first in range(0, END, 500):
        stamps = pa.array(range(first, first + 500), pa.timestamp("ms", tz="UTC"))
        values = [b"v" * (5 << 10)] * 500  # a segment of several batches
        topic.append(pa.table({"value": values, "timestamp": stamps}))
    return topic.scan(), open_tier(KAFKAS).topic("o1").scan([0])


def only(scan: Scan) -> Sequence[SegmentSlice]:
    (slices,) = scan.plan.partitions
    return slices


def read(scan: Scan, slices: Sequence[SegmentSlice]) -> list[int]:
    partitions = (slices,) if slices else ()
    of_it = replace(scan, plan=ScanPlan(partitions, scan.plan.fetch_size))
    offsets: list[int] = of_it.to_table()["offset"].to_pylist()
    return offsets


def test_both_kinds_of_slices_are_cut(scans: Sequence[Scan]) -> None:
    assert [isinstance(only(scan), SliceRun) for scan in scans] == [True, False]


@given(st.integers(0, END), st.integers(0, END))
def test_what_is_cut_has_exactly_the_offsets_located_or_not(
    scans: Sequence[Scan], start: int, end: int
) -> None:
    for scan in scans:
        part = cut_slices(only(scan), start, end)
        assert read(scan, part) == list(range(start, end))
        if part:
            located = locate_edges(scan.storage, part, skip_gaps=False)
            assert type(located) is type(part)
            assert read(scan, located) == list(range(start, end))


@given(st.lists(st.integers(0, END), max_size=6))
def test_cuts_of_cuts_are_together_what_was_cut(
    scans: Sequence[Scan], cuts: list[int]
) -> None:
    for scan in scans:
        bounds = [100, *sorted(min(max(cut, 100), 2900) for cut in cuts), 2900]
        whole = cut_slices(only(scan), 100, 2900)
        found = [
            (one.start_offset, one.end_offset)
            for start, end in pairwise(bounds)
            for one in cut_slices(whole, start, end)
        ]
        assert found[0][0] == 100
        assert found[-1][1] == 2900
        assert [end for _, end in found[:-1]] == [start for start, _ in found[1:]]


def test_located_slices_read_less(scans: Sequence[Scan]) -> None:
    for scan in scans:
        part = cut_slices(only(scan), 1100, 1150)
        (one,) = locate_edges(scan.storage, part, skip_gaps=False)
        assert one.size < (one.segment.size or 0)


@pytest.fixture
def copy(tmp_path: Path) -> tuple[Path, Scan]:
    (folder,) = KAFKAS.glob("o1-0-*")
    shutil.copytree(folder, tmp_path / folder.name)
    return tmp_path / folder.name, open_tier(tmp_path).topic("o1").scan()


def test_a_malformed_index_is_an_error_or_its_segment_is_left_whole(
    copy: tuple[Path, Scan],
) -> None:
    folder, scan = copy
    (index,) = folder.glob(f"{600:020d}-*.index")
    index.write_bytes(b"12345")
    part = cut_slices(only(scan), 1100, 1150)
    with pytest.raises(CorruptIndexError, match=f"{600:020d}"):
        locate_edges(scan.storage, part, skip_gaps=False)
    assert locate_edges(scan.storage, part, skip_gaps=True) == part


@pytest.mark.parametrize("skip_gaps", [False, True])
def test_a_segment_that_is_gone_is_left_for_the_read_to_deal_with(
    copy: tuple[Path, Scan], skip_gaps: bool
) -> None:
    folder, scan = copy
    part = cut_slices(only(scan), 1100, 1150)
    for file in folder.glob(f"{600:020d}-*"):
        file.unlink()
    assert locate_edges(scan.storage, part, skip_gaps=skip_gaps) == part
    with pytest.raises(NotFoundError, match=f"{600:020d}"):
        read(scan, part)


@pytest.mark.parametrize("timestamp", [-1, 0, 499, 500, 1234, 2999, 3000])
def test_only_late_segments_are_left_of_a_table(
    scans: Sequence[Scan], timestamp: int
) -> None:
    slices = only(scans[0])
    late = late_slices(slices, timestamp)
    expected = [
        one
        for one in slices
        if one.segment.max_timestamp_ms is not None
        and one.segment.max_timestamp_ms >= timestamp
    ]
    assert [one for run in late for one in run] == expected
    assert len(late) == bool(expected)


def test_late_segments_that_are_no_neighbours_are_runs_of_their_own(
    scans: Sequence[Scan],
) -> None:
    slices = tuple(
        replace(one, segment=replace(one.segment, max_timestamp_ms=stamp))
        for one, stamp in zip(only(scans[1]), [9, 1, None, 9, 2, 5], strict=True)
    )
    late = late_slices(slices, 5)
    assert late == [slices[0:1], slices[2:4], slices[5:6]]
