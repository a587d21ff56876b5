"""What a picture joins, and where its axes have labels."""

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rich.text import Text

from tieredfs.cli.picture.blocks import Block, blocks_of, joined
from tieredfs.cli.picture.findings import FindingKind, findings_of
from tieredfs.cli.picture.fold import fold
from tieredfs.cli.picture.scale import Scale, offset_ticks, time_ticks
from tieredfs.cli.picture.units import show_offsets, show_size, show_span, size_of_log
from tieredfs.log.planning.overlap import Tile
from tieredfs.log.report.composition import partition_report
from tieredfs.log.report.partition_report import PartitionReport
from tieredfs.model import EpochEntry, SegmentId, SegmentMetadata, TopicIdPartition

PARTITION = TopicIdPartition("t", 0)


@st.composite
def reports(draw: st.DrawFn) -> PartitionReport:
    """Draw partitions of segments that overlap, and are served in part."""
    spans = draw(
        st.lists(st.tuples(st.integers(0, 200), st.integers(1, 40)), max_size=30)
    )
    epochs = sorted(draw(st.sets(st.integers(1, 240), max_size=10)))
    segments = [
        SegmentMetadata(
            PARTITION,
            SegmentId.from_bytes((number + 1).to_bytes(16, "big")),
            start,
            start + size - 1,
            leader_epochs=(
                EpochEntry(0, 0),
                *(EpochEntry(n + 1, at) for n, at in enumerate(epochs)),
            ),
            size=size,
            record_count=draw(st.integers(0, size)),
        )
        for number, (start, size) in enumerate(sorted(spans))
    ]
    tiles: list[Tile] = []
    reached = 0
    for one in segments:
        end = (one.end_offset or 0) + 1
        if end > reached:
            tiles.append(Tile(one, max(one.start_offset, reached), end))
            reached = end
    return partition_report(PARTITION, segments, tiles, stored_sizes={}, profiles={})


def in_a_row(*epochs: int | None) -> PartitionReport:
    """Return the report of segments of ten offsets, each of one epoch, if known."""
    segments = [
        SegmentMetadata(
            PARTITION,
            SegmentId.from_bytes((at + 1).to_bytes(16, "big")),
            10 * at,
            10 * at + 9,
            leader_epochs=None if epoch is None else (EpochEntry(epoch, 10 * at),),
            size=10,
            record_count=10,
        )
        for at, epoch in enumerate(epochs)
    ]
    tiles = [Tile(one, one.start_offset, one.start_offset + 10) for one in segments]
    return partition_report(PARTITION, segments, tiles, stored_sizes={}, profiles={})


def said_of(report: PartitionReport, kind: FindingKind) -> str:
    (text,) = (one.text for one in findings_of(report) if one.kind is kind)
    return text


@pytest.mark.parametrize(
    ("epochs", "said"),
    [
        ((3, 3), "leader epoch 3"),
        (
            (0, None, 0),
            "leader epochs: 0 from 0; not known from 10; 0 from 20",
        ),
        ((None, 1), "leader epochs: not known from 0; 1 from 10"),
        (
            (0, 1, 2, 3, 4),
            "leader epochs: 2 earlier; 2 from 20; 3 from 30; 4 from 40",
        ),
    ],
)
def test_epochs_are_said_with_what_is_not_known_and_of_many_the_newest(
    epochs: tuple[int | None, ...], said: str
) -> None:
    assert said_of(in_a_row(*epochs), FindingKind.EPOCHS) == said


def test_of_segments_that_begin_at_one_offset_the_id_says_which_serves() -> None:
    one, other = (
        SegmentMetadata(
            PARTITION,
            SegmentId.from_bytes(bytes([n] * 16)),
            10,
            last,
            size=1,
            record_count=1,
        )
        for n, last in ((1, 19), (2, 29))
    )
    report = partition_report(
        PARTITION, [one, other], [Tile(other, 10, 30)], stored_sizes={}, profiles={}
    )
    assert said_of(report, FindingKind.OVERLAP) == (
        f"overlap: 10 offsets: 10 to 19 in 2 segments, served by segment {other.id} "
        "from 10"
    )


@given(
    st.lists(st.text("ab", min_size=1, max_size=9), max_size=20),
    st.integers(12, 40),
    st.integers(0, 3),
)
def test_folded_lines_have_every_word_and_are_no_wider(
    words: list[str], width: int, indent: int
) -> None:
    lines = fold(Text(" ".join(words)), width, indent=indent)
    assert " ".join(line.plain for line in lines).split() == words
    assert all(len(line) <= width for line in lines)
    assert all(line.plain.startswith(" " * indent) for line in lines)


def offsets_of(blocks: list[Block]) -> list[tuple[int, int]]:
    return [(one.lane, at) for one in blocks for at in range(one.start, one.end)]


@given(reports(), st.floats(0, 100))
def test_blocks_have_the_offsets_of_their_segments_and_share_none(
    report: PartitionReport, width: float
) -> None:
    blocks = blocks_of(report, width, report.lanes)
    held = offsets_of(blocks)
    assert len(held) == len(set(held))
    assert {at for _, at in held} >= {
        at for one in report.segments for at in range(one.start, one.end)
    }
    for one, other in pairwise(blocks):
        assert (one.lane, one.end) <= (other.lane, other.start)


@given(reports(), st.integers(0, 100))
def test_no_block_hides_a_gap_that_can_be_seen(
    report: PartitionReport, width: int
) -> None:
    parts = blocks_of(report, 0, report.lanes)
    for block in blocks_of(report, width, report.lanes):
        inside = [
            part
            for part in parts
            if part.lane == block.lane and block.start <= part.start < block.end
        ]
        assert inside[0].start == block.start
        gaps = [other.start - one.end for one, other in pairwise(inside)]
        assert all(gap < width for gap in gaps)


@given(reports())
def test_blocks_that_are_not_joined_say_of_each_offset_what_serves_it(
    report: PartitionReport,
) -> None:
    for block in blocks_of(report, 0, report.lanes):
        assert block.segments == 1
        for at in range(block.start, block.end):
            is_served = any(part.start <= at < part.end for part in block.first.served)
            assert block.is_served == is_served
            (epoch,) = (s.epoch for s in block.first.epochs if s.start <= at < s.end)
            assert block.epoch == epoch


@given(reports(), st.integers(1, 100))
def test_a_lane_has_at_most_two_blocks_for_each_width_that_is_seen(
    report: PartitionReport, width: int
) -> None:
    blocks = blocks_of(report, width, report.lanes)
    for lane in range(report.lanes):
        shown = [one for one in blocks if one.lane == lane]
        assert len(shown) <= 2 * (report.reach - report.start) / width + 2


@given(reports(), st.integers(0, 100))
def test_joined_segments_keep_their_sums(report: PartitionReport, width: int) -> None:
    one_epoch = all(len(one.epochs) == 1 for one in report.segments)
    whole = all(len(one.served) <= 1 for one in report.segments)
    blocks = blocks_of(report, width, report.lanes)
    assume(one_epoch and whole)
    split = {b.first for b in blocks_of(report, 0, report.lanes)}
    parts = blocks_of(report, 0, report.lanes)
    assume(len(parts) == len(split))  # no segment is served in part
    assert sum(one.segments for one in blocks) == len(report.segments)
    assert sum(one.size or 0 for one in blocks) == report.size
    records = sum(one.records or 0 for one in report.segments)
    assert sum(one.records or 0 for one in blocks) == records


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), max_size=30),
    st.integers(0, 40),
)
def test_joined_ranges_are_apart_and_have_all_offsets(
    steps: list[tuple[int, int]], width: int
) -> None:
    ranges: list[tuple[int, int]] = []
    at = 0
    for gap, size in steps:
        ranges.append((at + gap, at + gap + size))
        at += gap + size
    found = joined(ranges, width)
    assert sum(one.ranges for one in found) == len(ranges)
    assert sum(one.size for one in found) == sum(end - start for start, end in ranges)
    assert all(other.start - one.end >= width for one, other in pairwise(found))
    assert all(one.size <= one.end - one.start for one in found)


@given(st.integers(0, 2**63), st.integers(0, 2**62), st.integers(1, 20))
def test_labels_of_offsets_are_round_and_few(low: int, size: int, count: int) -> None:
    ticks = offset_ticks(low, low + size, count)
    assert len(ticks) <= count + 1
    assert all(low <= tick.value <= low + size for tick in ticks)
    steps = {other.value - one.value for one, other in pairwise(ticks)}
    assert len(steps) <= 1
    assert all(str(step).rstrip("0") in {"1", "2", "5"} for step in steps)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**62), st.integers(1, 20))
def test_labels_of_times_are_few_whatever_the_times_are(
    low: int, size: int, count: int
) -> None:
    ticks = time_ticks(low, low + size, count)
    assert len(ticks) <= count + 2
    assert all(low <= tick.value <= low + size for tick in ticks)
    assert all(one.value < other.value for one, other in pairwise(ticks))


def test_times_are_labelled_by_the_day_where_it_changes() -> None:
    start = 1_700_000_000_000  # 22:13:20 on 2023-11-14
    ticks = time_ticks(start, start + 4 * 3_600_000, 4)
    assert [(tick.label, tick.date) for tick in ticks] == [
        ("23:00", "2023-11-14"),
        ("00:00", "2023-11-15"),
        ("01:00", ""),
        ("02:00", ""),
    ]


@given(st.integers(0, 2**63), st.integers(1, 2**62), st.integers(0, 2**64))
def test_what_is_drawn_is_never_outside_of_its_axis(
    low: int, size: int, value: int
) -> None:
    assert 92 <= Scale(low, low + size, 92, 894).at(value) <= 986


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (None, "-"),
        (1, "1 byte"),
        (1023, "1,023 bytes"),
        (1024, "1.0 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (150 * 1024**3, "150 GiB"),
        (2**70, "1024 EiB"),
    ],
)
def test_sizes_are_in_the_unit_that_reads_best(size: int | None, shown: str) -> None:
    assert show_size(size) == shown


def test_a_size_that_is_not_known_is_said_in_words() -> None:
    assert size_of_log(2048) == "2.0 KiB of log"
    assert size_of_log(None) == "size of the log not known"


def test_offsets_and_times_are_shown_with_their_last_one() -> None:
    assert show_offsets(0, 1000) == "0 to 999"
    assert show_offsets(7, 8) == "7"
    day = 1_700_000_000_000
    assert show_span(day, day + 1000) == "2023-11-14T22:13:20Z to 22:13:21Z"
    assert show_span(None, None) == "-"
    assert show_span(None, day) == "until 2023-11-14T22:13:20Z"
