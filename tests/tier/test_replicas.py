"""Copies that differ: what is served of them is one state of one log, or an error."""

import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import pytest

from servers import Bucket
from support.damage import flipped
from support.log_directories import (
    ID,
    log_of,
    native,
    outcomes,
    push_all,
    source_of,
    topic_of,
    write_last_entry,
    write_log,
)
from support.wire import WireRecord, encode_batch
from tieredfs import (
    AlreadyExistsError,
    CorruptDataError,
    NotFoundError,
    ObjectStore,
    RequestCounter,
    SegmentMetadata,
    StorageUnavailableError,
)
from tieredfs.log.partitions import select_partitions
from tieredfs.log.pull.pull import pull
from tieredfs.log.push.push import PushOutcome, push
from tieredfs.log.verify.verify import Depth, PartitionReport, verify
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.stores import WRITES, WatchedStore

COPIED, PRESENT, CHANGED, FAILED = PushOutcome


@pytest.fixture
def target(memory: ObjectStore) -> SingleObject:
    """The native layout, with nothing in it."""
    return SingleObject(memory)


def cleaned(
    start: int,
    end: int,
    *,
    without: Collection[int] = (),
    keyed: Mapping[int, tuple[bytes, bytes | None]] | None = None,
    epoch: int = 0,
    batch: int = 10,
) -> bytes:
    """Encode the log of a segment from which a cleaner has taken some records."""
    out = b""
    for first in range(start, end, batch):
        stop = min(first + batch, end)
        kept = [
            WireRecord(at, 1_700_000_000_000 + at, *content)
            for at in range(first, stop)
            if at not in without
            for content in [(keyed or {}).get(at, (b"k%d" % at, b"v%d" % at))]
        ]
        if kept:
            out += encode_batch(
                kept, base_offset=first, last_offset=stop - 1, leader_epoch=epoch
            )
    return out


def report_of(storage: RemoteStorageManager) -> PartitionReport:
    (partition,) = storage.list_partitions()
    (report,) = verify(storage, [partition], Depth.EVERYTHING)
    return report


def problems(storage: RemoteStorageManager) -> list[str]:
    return [problem.detail for problem in report_of(storage).problems]


def offsets(storage: RemoteStorageManager) -> list[int]:
    found: list[int] = topic_of(storage).scan().to_table()["offset"].to_pylist()
    return found


def values(storage: RemoteStorageManager) -> list[bytes | None]:
    found: list[bytes | None] = topic_of(storage).scan().to_table()["value"].to_pylist()
    return found


def pulled(storage: RemoteStorageManager, folder: Path) -> KafkaLog:
    """Pull everything, and open it as the log directory it is."""
    pull(storage, ObjectStore(str(folder)), select_partitions(storage))
    log = source_of(folder)
    # A broker has an active segment behind the last closed one.
    (partition,) = log.list_partitions()
    end = topic_of(storage).end_offsets()[0]
    (folder / str(partition) / f"{end:020d}.log").touch()
    return log


class TestACompactedTopicOfTwoReplicas:
    """One of them has been cleaned: K's record 10, and its tombstone 150, are gone."""

    KEYED: ClassVar = {10: (b"K", b"ALIVE"), 150: (b"K", None)}

    def replica(self, root: Path, bounds: list[int], *, is_cleaned: bool) -> Path:
        gone = set(self.KEYED) if is_cleaned else set()
        logs = {
            start: cleaned(start, end, without=gone, keyed=self.KEYED)
            for start, end in pairwise(bounds)
        }
        write_log(root, logs)
        (root / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 240\n")
        return root

    @pytest.fixture
    def uncleaned(self, tmp_path: Path) -> Path:
        """The replica that keeps everything."""
        return self.replica(tmp_path / "b1", [0, 120, 231, 240], is_cleaned=False)

    @pytest.fixture
    def clean(self, tmp_path: Path) -> Path:
        """The replica whose cleaner was faster, and which rolls elsewhere."""
        return self.replica(tmp_path / "b2", [0, 100, 211, 240], is_cleaned=True)

    @pytest.mark.parametrize("order", [("uncleaned", "clean"), ("clean", "uncleaned")])
    def test_a_deleted_key_does_not_come_back(
        self,
        order: tuple[str, str],
        target: SingleObject,
        tmp_path: Path,
        request: pytest.FixtureRequest,
    ) -> None:
        for name in order:
            push_all(source_of(request.getfixturevalue(name)), target)
        kept = [at for at in range(231) if at not in self.KEYED]
        assert offsets(target) == kept
        assert problems(target) == []
        assert offsets(pulled(target, tmp_path / "back")) == kept

    def test_a_cleaned_copy_is_not_read_behind_an_older_state_of_the_same(
        self, clean: Path, target: SingleObject, tmp_path: Path
    ) -> None:
        """The cleaned copy of what comes first is lost."""
        push_all(source_of(clean), target)
        (partition,) = target.list_partitions()
        first, _ = target.list_segments(partition)
        target.delete_log_segment(first)
        other = self.replica(tmp_path / "b3", [0, 151, 240], is_cleaned=False)
        push_all(source_of(other), target)
        with pytest.raises(CorruptDataError, match="bring back deleted records"):
            topic_of(target).scan()
        assert "bring back deleted records" in " ".join(problems(target))
        skipping = topic_of(target).scan(on_gap="skip")
        assert skipping.to_table().num_rows == 210
        since = "1970-01-01"
        with pytest.raises(CorruptDataError, match=r"--on-gap skip"):
            topic_of(target).scan(start=since)
        timed = topic_of(target).scan(start=since, on_gap="skip")
        assert timed.to_table() == skipping.to_table()

    def test_behind_a_corrupt_segment_no_later_state_is_copied(
        self, uncleaned: Path, target: SingleObject, tmp_path: Path
    ) -> None:
        push_all(source_of(uncleaned), target)
        before = offsets(target)
        other = self.replica(tmp_path / "b3", [0, 120, 231, 240], is_cleaned=True)
        log = other / "t-0" / f"{0:020d}.log"
        log.write_bytes(flipped(log.read_bytes(), 100))
        report = push_all(source_of(other), target)
        assert outcomes(report) == [(0, FAILED)]
        assert offsets(target) == before
        again = self.replica(tmp_path / "b4", [0, 120, 231, 240], is_cleaned=True)
        push_all(source_of(again), target)
        assert 10 not in offsets(target)


class TestReplicasThatRollElsewhere:
    @pytest.fixture
    def replicas(self, tmp_path: Path) -> list[Path]:
        bounds = ([0, 120, 230, 240], [0, 100, 210, 240])
        for number, starts in enumerate(bounds):
            logs = {start: cleaned(start, end) for start, end in pairwise(starts)}
            write_log(tmp_path / str(number), logs)
        return [tmp_path / "0", tmp_path / "1"]

    def test_what_both_have_is_read_once_and_pulled_byte_for_byte(
        self, replicas: list[Path], target: SingleObject, tmp_path: Path
    ) -> None:
        for root in replicas:
            push_all(source_of(root), target)
        assert offsets(target) == list(range(230))
        assert problems(target) == []
        hidden = {one.segment.start_offset: one for one in report_of(target).superseded}
        assert {start: one.by.start_offset for start, one in hidden.items()} == {
            0: 0,
            100: 0,
        }
        back = tmp_path / "back"
        assert offsets(pulled(target, back)) == list(range(230))
        for start in (0, 120):
            name = f"t-0/{start:020d}.log"
            assert (back / name).read_bytes() == (replicas[0] / name).read_bytes()

    def test_a_segment_that_is_needed_in_part_is_pulled_as_one_of_its_own(
        self, replicas: list[Path], target: SingleObject, tmp_path: Path
    ) -> None:
        for root in replicas:
            push_all(source_of(root), target)
        (partition,) = target.list_partitions()
        for segment in target.list_segments(partition):
            if (segment.start_offset, segment.end_offset) in {(0, 99), (120, 229)}:
                target.delete_log_segment(segment)
        log = pulled(SingleObject(target.store), tmp_path / "back")
        assert offsets(log) == list(range(210))
        assert [s.start_offset for s in log.list_segments(partition)] == [0, 120, 210]
        assert problems(log) == []


class TestAnUncleanElection:
    """What one leader wrote from 150 on was lost, and its segment is in the archive."""

    @pytest.fixture
    def archived(self, target: SingleObject, tmp_path: Path) -> SingleObject:
        lost = {0: cleaned(0, 100), 100: log_of(100, 100, value="lost"), 200: b""}
        true = {
            0: cleaned(0, 100),
            100: log_of(100, 50, value="lost") + log_of(150, 20, epoch=1, value="true"),
            170: log_of(170, 90, epoch=1, value="true"),
            260: b"",
        }
        write_log(tmp_path / "b1", lost)
        write_log(tmp_path / "b2", true, epochs=[(0, 0), (1, 150)])
        for root in ("b1", "b2"):
            push_all(source_of(tmp_path / root), target)
        return target

    def test_the_new_leader_s_records_are_read_and_pulled(
        self, archived: SingleObject, tmp_path: Path
    ) -> None:
        assert offsets(archived) == list(range(260))
        mine = [v for v in values(archived) if v is not None and v.startswith(b"true")]
        assert len(mine) == 110
        assert problems(archived) == []
        assert values(pulled(archived, tmp_path / "back")) == values(archived)

    def test_a_part_of_the_old_leader_s_segment_is_cut_out_of_it_where_it_is_needed(
        self, archived: SingleObject, tmp_path: Path
    ) -> None:
        expected = values(archived)
        (partition,) = archived.list_partitions()
        for segment in archived.list_segments(partition):
            if segment.end_offset == 169:
                archived.delete_log_segment(segment)
        write_log(
            tmp_path / "b3",
            {150: log_of(150, 20, epoch=1, value="true"), 170: b""},
            epochs=[(0, 0), (1, 150)],
        )
        push_all(source_of(tmp_path / "b3"), archived)
        stored = SingleObject(archived.store)
        assert values(stored) == expected
        assert values(pulled(stored, tmp_path / "back")) == expected


class TestAnUncleanElectionInACompactedTopic:
    """K's record 10 was replaced at 160 by the new leader, and the cleaner has run."""

    KEYED: ClassVar = {10: (b"K", b"old"), 160: (b"K", b"new")}

    @pytest.fixture
    def archived(self, target: SingleObject, tmp_path: Path) -> SingleObject:
        """The archive of the leader that lost its records from 150 on."""
        logs = {0: cleaned(0, 100, keyed=self.KEYED), 100: log_of(100, 100), 200: b""}
        write_log(tmp_path / "b1", logs)
        push_all(source_of(tmp_path / "b1"), target)
        return target

    @pytest.fixture
    def leader(self, tmp_path: Path) -> KafkaLog:
        """The log of the new leader."""
        logs = {
            0: cleaned(0, 100, without={10}),
            100: log_of(100, 50),
            150: cleaned(150, 200, keyed=self.KEYED, epoch=1),
            200: cleaned(200, 300, epoch=1),
            300: b"",
        }
        write_log(tmp_path / "b2", logs, epochs=[(0, 0), (1, 150)])
        (tmp_path / "b2" / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 300\n")
        return source_of(tmp_path / "b2")

    @pytest.mark.parametrize("copied", range(4))
    def test_a_push_that_fails_half_way_hides_no_key(
        self, archived: SingleObject, leader: KafkaLog, copied: int
    ) -> None:
        store = WatchedStore.over(archived.store, WRITES, limit=copied)
        with pytest.raises(StorageUnavailableError):
            push_all(leader, SingleObject(store))
        table = topic_of(archived).scan().to_table()
        found = dict(
            zip(*(table[c].to_pylist() for c in ("key", "value")), strict=True)
        )
        assert found[b"K"] == (b"new" if copied else b"old")

    def test_a_whole_push_gives_the_new_leader_s_records(
        self, archived: SingleObject, leader: KafkaLog
    ) -> None:
        report = push_all(leader, archived)
        assert report.count(COPIED) + report.count(PRESENT) == len(report.segments)
        assert offsets(archived) == [at for at in range(300) if at != 10]
        assert problems(archived) == []


class TestATopicThatWasMadeAgain:
    @pytest.fixture
    def logs(self, tmp_path: Path) -> list[Path]:
        old = {at: log_of(at, 100, value="old") for at in (0, 100)}
        new = {at: log_of(at, 80, value="new") for at in (0, 80)}
        write_log(tmp_path / "old", {**old, 200: b""}, topic_id=None)
        write_log(tmp_path / "new", {**new, 160: b""}, topic_id=None)
        return [tmp_path / "old", tmp_path / "new"]

    @pytest.mark.parametrize("layout", [SingleObject, KafkaLocal])
    def test_without_a_topic_id_its_records_are_not_mixed_with_the_old_ones(
        self, logs: list[Path], memory: ObjectStore, layout: type[SingleObject]
    ) -> None:
        target = layout(memory)
        push_all(source_of(logs[0]), target)
        before = values(target)
        report = push_all(source_of(logs[1]), target)
        assert outcomes(report) == [(0, FAILED)]
        (error,) = report.errors
        assert isinstance(error, AlreadyExistsError)
        assert "recreated" in str(error)
        assert values(target) == before

    def test_nothing_shows_a_shorter_one_that_ends_before_the_old_one_begins(
        self, memory: ObjectStore, tmp_path: Path
    ) -> None:
        target = SingleObject(memory)
        write_log(tmp_path / "late", {100: log_of(100, 100), 200: b""}, topic_id=None)
        push_all(source_of(tmp_path / "late"), target)
        new = {0: log_of(0, 100, value="new"), 100: b""}
        write_log(tmp_path / "short", new, topic_id=None)
        assert outcomes(push_all(source_of(tmp_path / "short"), target)) == [
            (0, COPIED)
        ]

    def test_nothing_shows_one_of_which_the_old_ones_cleaner_left_no_record(
        self, memory: ObjectStore, tmp_path: Path
    ) -> None:
        target = SingleObject(memory)
        cleaned = {0: b"", 10: log_of(10, 10), 20: b""}
        write_log(tmp_path / "old", cleaned, topic_id=None)
        (tmp_path / "old" / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 20\n")
        push_all(source_of(tmp_path / "old"), target)
        new = {0: log_of(0, 10, value="new"), 10: b""}
        write_log(tmp_path / "new", new, topic_id=None)
        report = push_all(source_of(tmp_path / "new"), target)
        assert outcomes(report) == [(0, COPIED)]
        assert values(target) == [b"v%d" % offset for offset in range(10, 20)]

    def test_two_logs_that_were_mixed_are_found(
        self, logs: list[Path], tmp_path: Path
    ) -> None:
        for number, root in enumerate(logs):
            archive = tmp_path / f"a{number}"
            push_all(source_of(root), SingleObject(ObjectStore(str(archive))))
            shutil.copytree(archive, tmp_path / "mixed", dirs_exist_ok=True)
        mixed = SingleObject(ObjectStore(str(tmp_path / "mixed")))
        assert "have other records at the same" in " ".join(problems(mixed))


class TestWhatALeaderLost:
    """It was archived, and what was written instead was not."""

    @pytest.fixture(params=[SingleObject, KafkaLocal])
    def parted(
        self, request: pytest.FixtureRequest, memory: ObjectStore, tmp_path: Path
    ) -> SingleObject | KafkaLocal:
        target: SingleObject | KafkaLocal = request.param(memory)
        write_log(tmp_path / "old", {0: log_of(0), 10: log_of(10), 20: b""})
        push_all(source_of(tmp_path / "old"), target)
        write_log(
            tmp_path / "new",
            {20: log_of(20, epoch=1), 30: b""},
            epochs=((0, 0), (1, 10)),
        )
        push_all(source_of(tmp_path / "new"), target)
        return target

    def test_is_not_served_and_is_a_gap(
        self, parted: SingleObject | KafkaLocal
    ) -> None:
        topic = topic_of(parted)
        with pytest.raises(CorruptDataError, match="no segment holds the offsets 10"):
            topic.scan()
        with pytest.raises(CorruptDataError, match="no segment holds the offsets 12"):
            topic_of(parted).read(0, 12, 100)
        found = topic.scan(on_gap="skip").to_table()["offset"].to_pylist()
        assert found == [*range(10), *range(20, 30)]
        assert "no segment holds the offsets 10 to 19" in " ".join(problems(parted))

    def test_to_see_that_nothing_was_lost_costs_one_request_where_epochs_differ(
        self, memory: ObjectStore, tmp_path: Path
    ) -> None:
        asked = []
        for epoch in (0, 1):
            root, place = tmp_path / f"b{epoch}", f"{memory.url}/{epoch}"
            logs = {0: log_of(0), 10: log_of(10, epoch=epoch), 20: b""}
            write_log(root, logs, epochs=((0, 0), (1, 10))[: epoch + 1])
            push_all(source_of(root), SingleObject(ObjectStore(place)))
            counter = RequestCounter()
            topic = topic_of(SingleObject(ObjectStore(place, observer=counter)))
            assert topic.scan().to_table().num_rows == 20
            asked.append(counter.requests)
            topic.scan()  # it is not asked again
            asked.append(counter.requests)
        assert [asked[2] - asked[0], asked[3] - asked[1]] == [1, 1]


class TestAMissedSegment:
    """A listing of a directory in which the cleaner renames may lack a segment."""

    @pytest.fixture
    def logdir(self, tmp_path: Path) -> Path:
        logs = {at: cleaned(at, at + 100) for at in (0, 100, 200)}
        write_log(tmp_path / "b", {**logs, 300: b""})
        (tmp_path / "b" / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 300\n")
        return tmp_path / "b"

    @pytest.mark.parametrize("left", ["log.swap", "log.deleted", "log.cleaned"])
    def test_the_one_before_it_is_not_stretched_over_it(
        self, logdir: Path, target: SingleObject, left: str
    ) -> None:
        log = logdir / "t-0" / f"{100:020d}.log"
        content = log.read_bytes()
        log.unlink()
        (logdir / "t-0" / f"{100:020d}.{left}").write_bytes(content)
        report = push_all(source_of(logdir), target)
        assert outcomes(report)[-1][1] is CHANGED
        assert all(s.end_offset == s.start_offset + 99 for s in listed(target))
        (logdir / "t-0" / f"{100:020d}.{left}").unlink()
        log.write_bytes(content)
        push_all(source_of(logdir), target)
        assert offsets(target) == list(range(300))
        assert problems(target) == []

    def test_where_only_its_index_is_left_the_one_before_it_ends(
        self, logdir: Path, target: SingleObject
    ) -> None:
        log = logdir / "t-0" / f"{100:020d}.log"
        content = log.read_bytes()
        log.unlink()
        index = log.with_suffix(".index")
        index.write_bytes(b"")
        push_all(source_of(logdir), target)
        ends = [(one.start_offset, one.end_offset) for one in listed(target)]
        assert ends == [(0, 99), (200, 299)]
        log.write_bytes(content)
        push_all(source_of(logdir), target)
        assert offsets(target) == list(range(300))
        assert problems(target) == []

    def test_one_that_is_missed_while_the_other_is_read_is_seen_afterwards(
        self, logdir: Path, target: SingleObject
    ) -> None:
        log = logdir / "t-0" / f"{100:020d}.log"
        hidden = log.rename(logdir / "hidden")

        class Renaming(KafkaLog):
            def stream_log(self, metadata: SegmentMetadata) -> Iterator[memoryview]:
                yield from super().stream_log(metadata)
                if hidden.exists():
                    hidden.rename(log)

        report = push_all(Renaming(ObjectStore(str(logdir))), target)
        assert outcomes(report) == [(0, COPIED), (100, COPIED), (200, COPIED)]
        assert offsets(target) == list(range(300))

    @pytest.fixture
    def stretched(self, logdir: Path, target: SingleObject) -> SingleObject:
        """An archive that a push left which had no way to see it."""
        log = logdir / "t-0" / f"{100:020d}.log"
        hidden = log.rename(logdir / "hidden")
        write_last_entry(logdir / "t-0", 0)
        push_all(source_of(logdir), target)
        hidden.rename(log)
        return target

    def test_the_next_push_puts_it_right(
        self, logdir: Path, stretched: SingleObject, tmp_path: Path
    ) -> None:
        report = push_all(source_of(logdir), stretched)
        assert outcomes(report) == [(0, COPIED), (100, COPIED), (200, PRESENT)]
        assert offsets(stretched) == list(range(300))
        assert problems(stretched) == []
        assert offsets(pulled(stretched, tmp_path / "back")) == list(range(300))

    @pytest.mark.usefixtures("stretched")
    def test_two_objects_with_one_log_and_different_ends_are_an_error(
        self, logdir: Path, memory: ObjectStore
    ) -> None:
        other = SingleObject(ObjectStore(f"{memory.url}-other"))
        push_all(source_of(logdir), other)
        for entry in other.store.list():
            memory.put(entry.key, other.store.get(entry.key), overwrite=True)
        stored = SingleObject(memory)
        with pytest.raises(CorruptDataError, match="push the partition again"):
            topic_of(stored).scan()
        assert "with the end offsets 99 and 199" in " ".join(problems(stored))
        assert topic_of(stored).scan(on_gap="skip").to_table().num_rows == 300
        push_all(source_of(logdir), stored)
        assert offsets(stored) == list(range(300))
        assert problems(stored) == []


def listed(storage: RemoteStorageManager) -> list[SegmentMetadata]:
    return [s for p in storage.list_partitions() for s in storage.list_segments(p)]


def test_a_folder_of_log_directories_is_not_pushed_as_if_it_were_one(
    tmp_path: Path, target: SingleObject
) -> None:
    for number in range(2):
        write_log(tmp_path / f"data-{number}", {0: log_of(0), 10: b""})
    source = source_of(tmp_path)
    with pytest.raises(NotFoundError, match=re.escape(str(tmp_path))):
        push(source, target, select_partitions(source))


def test_the_partition_of_a_topic_that_was_made_again_meanwhile_is_not_found(
    tmp_path: Path,
) -> None:
    folder = write_log(tmp_path, {0: log_of(0), 10: b""})
    source = source_of(tmp_path)
    (partition,) = source.list_partitions()
    assert partition.topic_id == ID
    (folder / "partition.metadata").write_text(
        "version: 0\ntopic_id: -AAAAAAAAAAAAAAAAAAAAA"
    )
    with pytest.raises(NotFoundError, match="recreated"):
        source.list_segments(partition)


def test_a_key_with_another_epoch_than_its_log_is_found(
    place: Bucket, tmp_path: Path
) -> None:
    write_log(tmp_path, {0: log_of(0), 10: b""})
    push_all(source_of(tmp_path), native(place))
    stored = native(place)
    (entry,) = stored.store.list()
    content = bytes(stored.store.get(entry.key))
    stored.store.delete([entry.key])
    stored.store.put(
        entry.key.replace("-0000000000-", "-0000000007-"), content, overwrite=True
    )
    assert "epoch" in " ".join(problems(native(place)))
