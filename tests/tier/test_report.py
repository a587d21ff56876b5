"""What a partition is made of: who serves what, what is missing, what was removed."""

import json
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers import Bucket
from support.damage import flipped
from support.kafka_data import KAFKA, LOCAL, REMOTE
from support.log_directories import (
    ID,
    log_of,
    native,
    push_all,
    small,
    source_of,
    topic_of,
)
from support.segments import segment
from support.stores import fill
from tieredfs import (
    CorruptDataError,
    EpochEntry,
    ObjectStore,
    SegmentId,
    SegmentMetadata,
    TopicIdPartition,
    open_tier,
)
from tieredfs.log.planning.overlap import Tile
from tieredfs.log.report.composition import partition_report
from tieredfs.log.report.partition_report import OffsetRange, PartitionReport
from tieredfs.log.report.topic_report import TopicReport, report_topic
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject

PARTITION = TopicIdPartition("t", 0, ID)
FOLDER = f"t-0-{ID}"


class Log(NamedTuple):
    """Segments, and which of them serves each offset."""

    segments: list[SegmentMetadata]
    servers: dict[int, SegmentMetadata]

    @property
    def tiles(self) -> list[Tile]:
        """Offsets in a row that one segment serves."""
        found: list[Tile] = []
        for offset, server in sorted(self.servers.items()):
            if found and found[-1].segment is server and found[-1].end == offset:
                found.append(found.pop()._replace(end=offset + 1))
            else:
                found.append(Tile(server, offset, offset + 1))
        return found


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Draw segments that lie anyhow, and a server for some of their offsets."""
    spans = draw(
        st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=8)
    )
    segments = [
        SegmentMetadata(
            PARTITION,
            SegmentId.from_bytes(number.to_bytes(16, "big")),
            start,
            start + size - 1,
            leader_epochs=tuple(
                EpochEntry(epoch, at)
                for epoch, at in enumerate(
                    sorted(draw(st.sets(st.integers(0, 40), max_size=3)))
                )
                if at < start + size
            ),
            size=10,
        )
        for number, (start, size) in enumerate(sorted(spans))
    ]
    servers: dict[int, SegmentMetadata] = {}
    for offset in range(45):
        having = [one for one in segments if has(one, offset)]
        server = draw(st.sampled_from([None, *having])) if having else None
        if server is not None:
            servers[offset] = server
    return Log(segments, servers)


def has(one: SegmentMetadata, offset: int) -> bool:
    return one.end_offset is not None and one.start_offset <= offset <= one.end_offset


def composed(log: Log) -> PartitionReport:
    return partition_report(
        PARTITION, log.segments, log.tiles, stored_sizes={}, profiles={}
    )


@given(logs())
def test_an_overlap_says_of_each_offset_how_many_segments_have_it_and_which_serves(
    log: Log,
) -> None:
    said = {
        offset: (one.copies, one.served_by)
        for one in composed(log).overlaps
        for offset in range(one.start, one.end)
    }
    copies = {o: sum(has(one, o) for one in log.segments) for o in range(45)}
    assert said == {
        offset: (count, log.servers.get(offset))
        for offset, count in copies.items()
        if count > 1
    }


@given(logs())
def test_neighbouring_overlaps_differ(log: Log) -> None:
    overlaps = composed(log).overlaps
    for one, other in pairwise(overlaps):
        assert one.end <= other.start
        same = (one.copies, one.served_by) == (other.copies, other.served_by)
        assert one.end < other.start or not same


@given(logs())
def test_segments_of_one_lane_share_no_offset_and_no_lane_is_empty(log: Log) -> None:
    report = composed(log)
    held = [
        (one.lane, offset)
        for one in report.segments
        for offset in range(one.start, one.end)
    ]
    assert len(held) == len(set(held))
    assert {one.lane for one in report.segments} == set(range(report.lanes))


@given(logs())
def test_gaps_are_the_offsets_of_the_log_that_nothing_serves(log: Log) -> None:
    report = composed(log)
    missing = [at for gap in report.gaps for at in range(gap.start, gap.end)]
    expected = [at for at in range(report.start, report.end) if at not in log.servers]
    assert missing == expected
    assert all(at < report.end for at in log.servers)


def test_offsets_at_the_end_of_the_log_that_nothing_serves_are_a_gap() -> None:
    """Those of its last segment, when it cannot be read."""
    first, last = (
        SegmentMetadata(
            PARTITION, SegmentId.from_bytes(bytes([n] * 16)), start, start + 9
        )
        for n, start in ((1, 0), (2, 10))
    )
    report = composed(Log([first, last], dict.fromkeys(range(10), first)))
    assert report.gaps == (OffsetRange(10, 20),)
    assert report.end == 20


@given(logs())
def test_each_segment_has_its_own_part_of_what_is_served(log: Log) -> None:
    for one in composed(log).segments:
        served = [at for part in one.served for at in range(part.start, part.end)]
        mine = [at for at, server in log.servers.items() if server == one.segment]
        assert served == mine


@given(logs())
def test_the_epoch_of_each_offset_is_that_of_the_segment_that_serves_it(
    log: Log,
) -> None:
    said = {
        at: one.epoch
        for one in composed(log).epochs
        for at in range(one.start, one.end)
        if at in log.servers
    }
    for at, server in log.servers.items():
        begun = [e.epoch for e in server.leader_epochs or () if e.start_offset <= at]
        assert said[at] == (begun[-1] if begun else -1)


def report_of(url: str, topic: str) -> TopicReport:
    with open_tier(url) as tier:
        found = tier.topic(topic)
        readers = [found.reader(number) for number in found.partitions]
        return report_topic(found.name, str(found.topic_id), readers)


def test_a_brokers_overlap_is_found() -> None:
    (report,) = report_of(
        str(KAFKA / "leader-changes" / REMOTE), "leader-changes"
    ).partitions
    (overlap,) = report.overlaps
    assert (overlap.start, overlap.end, overlap.copies) == (4339, 4544, 2)
    assert overlap.served_by is not None
    assert overlap.served_by.start_offset == 4291
    assert [one.lane for one in report.segments] == [0, 1, 0]
    assert report.segments[1].served == (OffsetRange(4544, 4635),)
    assert [(one.epoch, one.start) for one in report.epochs] == [(2, 4291), (3, 4662)]
    assert (report.gaps, report.emptied, report.errors) == ((), 0, ())


def test_what_a_cleaner_removed_is_counted_as_kafka_counts_it() -> None:
    (report,) = report_of(str(KAFKA / "compacted" / LOCAL), "compacted").partitions
    held = _kafkas("expected.jsonl", "offset")
    assert report.emptied == 1425 - len(held)
    for one in report.segments:
        assert one.profile is not None
        assert one.profile.total == sum(one.start <= at < one.end for at in held)


def test_the_profile_is_exact_at_the_ends_of_batches() -> None:
    (report,) = report_of(str(KAFKA / "compacted" / LOCAL), "compacted").partitions
    held = _kafkas("expected.jsonl", "offset")
    ends = sorted(
        {*_kafkas("batches.jsonl", "baseOffset")}
        | {at + 1 for at in _kafkas("batches.jsonl", "lastOffset")}
    )
    checked = 0
    for one in report.segments:
        inside = [at for at in ends if one.start <= at <= one.end]
        for low, high in pairwise(inside):
            records = one.records_within(low, high)
            assert records == pytest.approx(sum(low <= at < high for at in held))
            checked += 1
    assert checked > 150


def _kafkas(file: str, field: str) -> list[int]:
    """Return what Kafka's own classes say of each batch or record of ``compacted``."""
    files = (KAFKA / "compacted" / "expected" / LOCAL).glob(f"*/*.log.{file}")
    lines = [line for one in files for line in one.read_text().splitlines()]
    return [json.loads(line)[field] for line in lines]


def test_a_damaged_segment_hides_neither_its_neighbours_nor_its_own_place(
    tmp_path: Path,
) -> None:
    small(tmp_path / "broker")
    push_all(source_of(tmp_path / "broker"), native(Bucket(str(tmp_path / "tier"), {})))
    whole = report_of(str(tmp_path / "tier"), "t").partitions[0]
    victim = sorted((tmp_path / "tier").rglob("*.segment"))[1]
    victim.write_bytes(flipped(victim.read_bytes(), 70))
    (report,) = report_of(str(tmp_path / "tier"), "t").partitions
    assert [one.start for one in report.segments] == [0, 10, 20]
    assert [one.served for one in report.segments] == [
        one.served for one in whole.segments
    ]
    (error,) = report.errors
    assert isinstance(error, CorruptDataError)
    assert victim.name in str(error)


@pytest.mark.parametrize("start", [0, 10])
def test_a_segment_that_cannot_be_read_at_all_is_a_gap_and_one_error(
    memory: ObjectStore, start: int
) -> None:
    files = {
        name: data
        for first in (0, 10, 20)
        for name, data in segment(FOLDER, first, log_of(first, 10)).items()
    }
    (index,) = (n for n in files if f"{start:020d}" in n and n.endswith(".index"))
    fill(memory, files | {index: b"12345"})
    topic = topic_of(KafkaLocal(memory))
    (report,) = report_topic("t", "", [topic.reader(0)]).partitions
    assert report.gaps == (OffsetRange(start, start + 10),)
    assert (report.start, report.end) == (0, 30)
    (error,) = report.errors
    assert index.split("/")[-1] in str(error)


def test_a_hole_between_segments_is_a_gap_and_an_error(memory: ObjectStore) -> None:
    files = {
        **segment(FOLDER, 0, log_of(0, 10)),
        **segment(FOLDER, 20, log_of(20, 10)),
    }
    fill(memory, files)
    topic = topic_of(KafkaLocal(memory))
    (report,) = report_topic("t", "", [topic.reader(0)]).partitions
    assert report.gaps == (OffsetRange(10, 20),)
    assert (report.start, report.end) == (0, 30)
    (error,) = report.errors
    assert "10 to 19" in str(error)


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_segment_that_is_cut_is_a_gap_and_hides_no_other(
    tmp_path: Path, victim: int
) -> None:
    small(tmp_path / "broker")
    push_all(source_of(tmp_path / "broker"), native(Bucket(str(tmp_path / "tier"), {})))
    cut = sorted((tmp_path / "tier").rglob("*.segment"))[victim]
    cut.write_bytes(cut.read_bytes()[:100])
    (report,) = report_of(str(tmp_path / "tier"), "t").partitions
    starts = [0, 10, 20]
    del starts[victim]
    assert [one.start for one in report.segments] == starts
    assert [one.records for one in report.segments] == [10, 10]
    assert report.gaps == (OffsetRange(10 * victim, 10 * victim + 10),)
    assert (report.start, report.end, report.reach, report.unreadable) == (0, 30, 30, 1)
    assert report.first_timestamp is not None
    (error,) = report.errors
    assert isinstance(error, CorruptDataError)
    assert cut.name in str(error)


def test_where_every_segment_is_cut_all_offsets_are_a_gap(tmp_path: Path) -> None:
    small(tmp_path / "broker")
    push_all(source_of(tmp_path / "broker"), native(Bucket(str(tmp_path / "tier"), {})))
    for cut in (tmp_path / "tier").rglob("*.segment"):
        cut.write_bytes(b"")
    (report,) = report_of(str(tmp_path / "tier"), "t").partitions
    assert (report.segments, report.unreadable, len(report.errors)) == ((), 3, 3)
    assert report.gaps == (OffsetRange(0, 30),)


def test_a_cut_copy_of_a_segment_that_is_also_stored_whole_is_not_one_more(
    tmp_path: Path,
) -> None:
    small(tmp_path / "broker")
    tier = tmp_path / "tier"
    push_all(source_of(tmp_path / "broker"), native(Bucket(str(tier), {})))
    zipped = SingleObject(ObjectStore(str(tmp_path / "zipped")), compression="zstd")
    push_all(source_of(tmp_path / "broker"), zipped)
    first, second, _ = sorted(tier.rglob("*.segment"))
    copy = min((tmp_path / "zipped").rglob("*.segment"))
    assert copy.name != first.name
    first.with_name(copy.name).write_bytes(b"cut")
    second.write_bytes(b"cut")
    (report,) = report_of(str(tier), "t").partitions
    assert (report.gaps, report.unreadable) == ((OffsetRange(10, 20),), 1)
    (error,) = report.errors
    assert second.name in str(error)


def test_each_of_several_gaps_is_an_error_also_beside_a_damaged_segment(
    memory: ObjectStore,
) -> None:
    files = {
        name: data
        for first in (0, 20, 40, 50, 60)
        for name, data in segment(FOLDER, first, log_of(first, 10)).items()
    }
    fill(memory, files)

    def errors_of() -> list[str]:
        topic = topic_of(KafkaLocal(memory))
        (report,) = report_topic("t", "", [topic.reader(0)]).partitions
        return [str(error) for error in report.errors]

    first, second = errors_of()
    assert "no segment holds the offsets 10 to 19" in first
    assert "no segment holds the offsets 30 to 39" in second
    (index,) = (n for n in files if f"{50:020d}" in n and n.endswith(".index"))
    fill(memory, {index: b"12345"})
    damage, *others = errors_of()
    assert index.split("/")[-1] in damage
    assert [one.partition(" holds ")[2] for one in others] == [
        "the offsets 10 to 19",
        "the offsets 30 to 39",
    ]


def test_the_profile_says_where_the_holes_are() -> None:
    (report,) = report_of(str(KAFKA / "compacted" / LOCAL), "compacted").partitions
    held = set(_kafkas("expected.jsonl", "offset"))
    for one in report.segments:
        assert one.profile is not None
        holes = list(one.profile.holes(one.start, one.end))
        lost = sum(end - start - records for start, end, records in holes)
        assert round(lost) == sum(at not in held for at in range(one.start, one.end))
        for start, end, records in holes:
            assert records == pytest.approx(sum(start <= at < end for at in held))
        covered = {at for start, end, _ in holes for at in range(start, end)}
        assert set(range(one.start, one.end)) - covered <= held
