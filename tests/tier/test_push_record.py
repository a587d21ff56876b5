"""A log that was read before and has not changed is not read again: it is looked up."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.damage import flipped
from support.log_directories import (
    log_of,
    outcomes,
    push_all,
    small,
    source_of,
    write_last_entry,
)
from tieredfs import ObjectStore, SegmentMetadata, TopicIdPartition
from tieredfs.log.push.push import PushOutcome, PushReport, push
from tieredfs.log.push.push_record import PushRecord
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject

COPIED, PRESENT, CHANGED, FAILED = PushOutcome
ALL_PRESENT = [(0, PRESENT), (10, PRESENT), (20, PRESENT)]


class Watched(KafkaLog):
    """A log directory that remembers which logs were read."""

    def __init__(self, root: Path) -> None:
        super().__init__(ObjectStore(str(root)))
        self.read: list[int] = []

    def stream_log(self, metadata: SegmentMetadata) -> Iterator[memoryview]:
        self.read.append(metadata.start_offset)
        return super().stream_log(metadata)


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    """A log directory of three closed segments of ten records, and an active one."""
    small(tmp_path / "broker")
    return tmp_path / "broker"


@pytest.fixture
def record(tmp_path: Path) -> PushRecord:
    """A record that takes what has just been written as well."""
    return PushRecord(tmp_path / "cache" / "pushed", min_age_ns=-(10**18))


@pytest.fixture(params=[SingleObject, KafkaLocal])
def target(
    request: pytest.FixtureRequest, memory: ObjectStore
) -> SingleObject | KafkaLocal:
    """A layout with nothing in it."""
    made: SingleObject | KafkaLocal = request.param(memory)
    return made


Push = Callable[..., tuple[PushReport, list[int]]]


@pytest.fixture
def pushed(logdir: Path, target: SingleObject | KafkaLocal, record: PushRecord) -> Push:
    """Push the directory, with the record; which logs were read comes with it."""

    def run(
        *, active: bool = False, repair: bool = False
    ) -> tuple[PushReport, list[int]]:
        source = Watched(logdir)
        report = push(
            source,
            target,
            source.list_partitions(),
            active=active,
            repair=repair,
            record=record,
        )
        return report, source.read

    return run


def log_file(logdir: Path, start: int) -> Path:
    return logdir / "t-0" / f"{start:020d}.log"


def test_a_second_push_reads_no_log(pushed: Push) -> None:
    report, read = pushed()
    assert (report.count(COPIED), read) == (3, [0, 10, 20])
    report, read = pushed()
    assert (outcomes(report), read) == (ALL_PRESENT, [])
    assert [one.segment.end_offset for one in report.segments] == [9, 19, 29]


def test_it_says_what_a_push_without_it_says(
    pushed: Push, logdir: Path, target: SingleObject | KafkaLocal
) -> None:
    pushed()
    report, _ = pushed()
    assert report == push_all(source_of(logdir), target)


def test_a_record_of_one_archive_serves_for_another(
    logdir: Path, record: PushRecord, pushed: Push, tmp_path: Path
) -> None:
    pushed()
    source = Watched(logdir)
    other = SingleObject(ObjectStore(str(tmp_path / "other")))
    report = push(source, other, source.list_partitions(), record=record)
    assert (report.count(COPIED), source.read) == (3, [0, 10, 20])


def test_what_the_archive_lacks_is_read_and_pushed_again(
    pushed: Push, target: SingleObject | KafkaLocal
) -> None:
    report, _ = pushed()
    target.delete_log_segment(report.segments[1].segment)
    report, read = pushed()
    assert outcomes(report) == [(0, PRESENT), (10, COPIED), (20, PRESENT)]
    assert read == [10]


@pytest.mark.parametrize("size", [0, 20, -1])
@pytest.mark.parametrize("layout", [SingleObject, KafkaLocal])
@pytest.mark.parametrize("is_noted", [False, True])
def test_an_object_that_was_cut_is_put_again(
    logdir: Path,
    record: PushRecord,
    memory: ObjectStore,
    layout: type[SingleObject | KafkaLocal],
    size: int,
    *,
    is_noted: bool,
) -> None:
    source, noted = Watched(logdir), record if is_noted else None
    partitions = source.list_partitions()
    push(source, layout(memory), partitions, record=noted)
    logs = (".segment", ".log")
    key = next(one.key for one in memory.list() if one.key.endswith(logs))
    whole = bytes(memory.get(key))
    memory.put(key, whole[:size], overwrite=True)
    report = push(source, layout(memory), partitions, record=noted)
    assert outcomes(report) == [(0, COPIED), (10, PRESENT), (20, PRESENT)]
    assert memory.get(key) == whole


def rewrite(log: Path) -> None:
    log.write_bytes(log_of(10, value="w"))


def rewrite_and_hide_it(log: Path) -> None:
    """Keep the size, the inode and the time of the modification."""
    before = log.stat()
    rewrite(log)
    assert log.stat().st_size == before.st_size
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(log: Path) -> None:
    swap = log.with_suffix(".log.swap")
    swap.write_bytes(log_of(10, value="w"))
    swap.replace(log)


def damage(log: Path) -> None:
    log.write_bytes(flipped(log.read_bytes(), 100))


@pytest.mark.parametrize("change", [rewrite, rewrite_and_hide_it, replace, damage])
def test_a_log_that_has_changed_is_read(
    change: Callable[[Path], None], pushed: Push, logdir: Path
) -> None:
    pushed()
    change(log_file(logdir, 10))
    report, read = pushed()
    assert read == [10]
    assert [outcome for _, outcome in outcomes(report)] == [PRESENT, FAILED, PRESENT][
        : len(report.segments)
    ]


def test_a_segment_that_ends_elsewhere_is_read(pushed: Push, logdir: Path) -> None:
    """The cleaner has emptied the second segment, and put both into the first."""
    (logdir / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 30\n")
    pushed()
    for file in (logdir / "t-0").glob(f"{10:020d}.*"):
        file.unlink()
    _, read = pushed()
    assert read[0] == 0


def test_a_segment_whose_end_is_not_confirmed_is_not_taken_for_present(
    logdir: Path, record: PushRecord, memory: ObjectStore
) -> None:
    """Its log ends before it does, and a file of the cleaner's lies in between."""
    (logdir / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 30\n")
    log_file(logdir, 10).rename(logdir / "kept")
    write_last_entry(logdir / "t-0", 0)
    source, target = Watched(logdir), SingleObject(memory)
    partitions = source.list_partitions()
    report = push(source, target, partitions, record=record)
    assert outcomes(report) == [(0, COPIED), (20, COPIED)]
    (logdir / "kept").rename(log_file(logdir, 10).with_suffix(".log.deleted"))
    source.read.clear()
    report = push(source, target, partitions, record=record)
    assert outcomes(report) == [(0, CHANGED)]
    assert set(source.read) == {0}


def test_the_active_segment_is_always_read(pushed: Push) -> None:
    for _ in range(2):
        _, read = pushed(active=True)
        assert read[-1] == 30


def test_a_repair_reads_every_log(pushed: Push) -> None:
    pushed()
    assert pushed(repair=True)[1] == [0, 10, 20]


def test_a_log_that_has_just_changed_is_not_noted(logdir: Path, tmp_path: Path) -> None:
    """The next change may have the same time."""
    record = PushRecord(tmp_path / "pushed")
    source, target = Watched(logdir), SingleObject(ObjectStore(str(tmp_path / "x")))
    for _ in range(2):
        push(source, target, source.list_partitions(), record=record)
    assert source.read == [0, 10, 20] * 2


def test_a_log_that_is_gone_is_forgotten(
    pushed: Push, logdir: Path, tmp_path: Path
) -> None:
    pushed()
    (file,) = (tmp_path / "cache" / "pushed").iterdir()
    before = file.stat().st_size
    log_file(logdir, 0).unlink()
    pushed()
    assert file.stat().st_size < before
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: flipped(data, 40),
        lambda data: flipped(data, 0),
        lambda data: data[:-1],
        lambda data: data[:0],
        lambda data: b"\xff" * len(data),
    ],
    ids=["a bit", "the checksum", "its end", "all of it", "its text"],
)
def test_a_record_that_is_spoiled_costs_reading(
    spoil: Callable[[bytes], bytes], pushed: Push, tmp_path: Path
) -> None:
    pushed()
    (file,) = (tmp_path / "cache" / "pushed").iterdir()
    file.write_bytes(spoil(file.read_bytes()))
    report, read = pushed()
    assert (outcomes(report), read) == (ALL_PRESENT, [0, 10, 20])
    assert pushed()[1] == []


def test_a_record_that_cannot_be_written_costs_reading(
    pushed: Push, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file")
    for _ in range(2):
        report, read = pushed()
        assert (len(report.segments), read) == (3, [0, 10, 20])


def test_another_directory_of_the_same_topic_has_a_record_of_its_own(
    pushed: Push, logdir: Path, record: PushRecord, tmp_path: Path
) -> None:
    pushed()
    shutil.copytree(logdir, tmp_path / "replica")
    source = Watched(tmp_path / "replica")
    target = SingleObject(ObjectStore(str(tmp_path / "x")))
    (partition,) = source.list_partitions()
    assert isinstance(partition, TopicIdPartition)
    push(source, target, [partition], record=record)
    assert source.read == [0, 10, 20]
    assert len(list((tmp_path / "cache" / "pushed").iterdir())) == 2


def test_the_folders_that_it_makes_are_for_their_owner_only(
    logdir: Path, target: SingleObject, tmp_path: Path
) -> None:
    folder = tmp_path / "made" / "cache" / "pushed"
    source = source_of(logdir)
    push(
        source,
        target,
        source.list_partitions(),
        record=PushRecord(folder, min_age_ns=0),
    )
    for made in (folder, folder.parent, folder.parent.parent):
        assert made.stat().st_mode & 0o777 == 0o700
