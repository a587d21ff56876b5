"""What the page on integrity says of the verbs, where no other module shows it.

The tests of what is *not* guaranteed or checked are here too: they show what a reader
may meet, so that the page cannot promise more.
"""

import os
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from typing import Self

import pyarrow as pa
import pytest

from support.damage import flipped
from support.kafka_data import KAFKA, REMOTE
from support.log_directories import (
    ID,
    log_of,
    outcomes,
    partition_of,
    push_all,
    small,
    source_of,
    topic_of,
    write_log,
)
from support.segments import records, segment
from support.stores import files_of, fill
from support.wire import encode_batch
from tieredfs import (
    AlreadyExistsError,
    CorruptDataError,
    CorruptIndexError,
    ObjectStore,
    RequestCounter,
    SegmentMetadata,
    StorageUnavailableError,
    Tier,
)
from tieredfs.format.segment.native_keys import NativeKeys
from tieredfs.log.partitions import select_partitions
from tieredfs.log.pull.pull import pull
from tieredfs.log.push.push import PushOutcome
from tieredfs.log.verify.verify import Depth, PartitionReport, verify
from tieredfs.objects import ObjectInfo
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.stores import WRITES, WatchedStore

KEYS = NativeKeys()
COPIED, PRESENT, CHANGED, FAILED = PushOutcome
FOLDER = f"t-0-{ID}"


@pytest.fixture
def target(memory: ObjectStore) -> SingleObject:
    """The native layout, with nothing in it."""
    return SingleObject(memory)


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    """A log directory of three closed segments of ten records, and an active one."""
    small(tmp_path / "broker")
    return tmp_path / "broker"


class _Lacking(ObjectStore):
    """A directory of whose listings some lack a file, as when it is being renamed."""

    _lacks: Callable[[str], bool]

    @classmethod
    def over(cls, url: str, lacks: Callable[[str], bool]) -> Self:
        made = cls(url)
        made._lacks = lacks
        return made

    def list(
        self, prefix: str = "", *, start_after: str = "", delimiter: str = ""
    ) -> Iterator[ObjectInfo]:
        listed = super().list(prefix, start_after=start_after, delimiter=delimiter)
        return (entry for entry in listed if not self._lacks(entry.key))


def offsets(storage: RemoteStorageManager) -> list[int]:
    found: list[int] = topic_of(storage).scan().to_table()["offset"].to_pylist()
    return found


def report_of(storage: RemoteStorageManager, depth: Depth) -> PartitionReport:
    (report,) = verify(storage, storage.list_partitions(), depth)
    return report


def problems(
    storage: RemoteStorageManager, depth: Depth = Depth.EVERYTHING
) -> list[str]:
    return [problem.detail for problem in report_of(storage, depth).problems]


def values_table(*texts: str) -> pa.Table:
    return pa.table({"value": pa.array([text.encode() for text in texts], pa.binary())})


def replace_batch(storage: SingleObject, damage: Callable[[bytes], bytes]) -> None:
    """Change the log of the only object of a storage, which keeps its size."""
    (entry,) = (e for e in storage.store.list() if e.key.endswith(".segment"))
    changed = damage(bytes(storage.store.get(entry.key)))
    storage.store.put(entry.key, changed, overwrite=True)


class TestPush:
    def test_two_at_once_leave_each_segment_once(
        self, logdir: Path, target: SingleObject
    ) -> None:
        class Twin(KafkaLog):
            """Another push of the same log runs from its beginning to its end."""

            def stream_log(self, metadata: SegmentMetadata) -> Iterator[memoryview]:
                push_all(source_of(logdir), SingleObject(target.store))
                yield from super().stream_log(metadata)

        push_all(Twin(ObjectStore(str(logdir))), target)
        stored = SingleObject(target.store)
        starts = [s.start_offset for s in stored.list_segments(partition_of())]
        assert starts == [0, 10, 20]
        assert problems(stored) == []

    def test_what_is_present_is_not_read(
        self, logdir: Path, target: SingleObject
    ) -> None:
        push_all(source_of(logdir), target)
        key = next(target.store.list("t/")).key
        target.store.put(key, flipped(bytes(target.store.get(key)), 70), overwrite=True)
        report = push_all(source_of(logdir), SingleObject(target.store))
        assert [outcome for _, outcome in outcomes(report)] == [PRESENT] * 3
        assert problems(SingleObject(target.store), Depth.INDEXES) == []
        assert problems(SingleObject(target.store)) != []

    def test_only_the_end_of_what_two_logs_share_is_compared(
        self, tmp_path: Path, target: SingleObject
    ) -> None:
        shared = log_of(10, 90)
        for name in ("one", "two"):
            log = log_of(0, 10, value=name) + shared
            write_log(tmp_path / name, {0: log, 100: b""}, topic_id=None)
        for name in ("one", "two"):
            report = push_all(source_of(tmp_path / name), target)
            assert outcomes(report) == [(0, COPIED)]
        assert problems(target) == []

    def test_more_is_compared_where_the_cleaner_left_nothing_in_common(
        self, tmp_path: Path, target: SingleObject
    ) -> None:
        reports = []
        for first, name in enumerate(("one", "two")):
            log = log_of(0, 100, value=name) + b"".join(
                encode_batch(records(at, 1)) for at in range(100 + first, 200, 2)
            )
            write_log(tmp_path / name, {0: log, 200: b""}, topic_id=None)
            cleaned = tmp_path / name / "cleaner-offset-checkpoint"
            cleaned.write_text("0\n1\nt 0 200\n")
            reports.append(push_all(source_of(tmp_path / name), target))
        assert [outcomes(report) for report in reports] == [
            [(0, COPIED)],
            [(0, FAILED)],
        ]

    def test_a_segment_that_was_deleted_is_pushed_again(
        self, logdir: Path, target: SingleObject
    ) -> None:
        push_all(source_of(logdir), target)
        first, *_ = target.list_segments(partition_of())
        target.delete_log_segment(first)
        report = push_all(source_of(logdir), target)
        assert outcomes(report) == [(0, COPIED), (10, PRESENT), (20, PRESENT)]


def test_another_topic_object_appends_what_is_in_doubt_a_second_time(
    memory: ObjectStore,
) -> None:
    """To it the append in doubt is another writer's."""
    Tier(SingleObject(memory)).create_topic("t", topic_id=ID).append(values_table("a"))
    writes = 3  # the last one makes the segment; its answer is lost
    doubtful = WatchedStore.over(memory, WRITES - {"delete"}, limit=writes - 1)
    with pytest.raises(StorageUnavailableError):
        topic_of(SingleObject(doubtful)).append(values_table("b"))
    other = topic_of(SingleObject(memory))
    for _ in range(2):
        try:
            other.append(values_table("b"))
        except AlreadyExistsError:
            continue
        break
    assert other.scan().to_table()["value"].to_pylist() == [b"a", b"b", b"b"]


class TestReading:
    def test_a_scan_does_not_see_what_is_added_after_it_was_made(
        self, logdir: Path, target: SingleObject
    ) -> None:
        push_all(source_of(logdir), target)
        scan = topic_of(target).scan()
        push_all(source_of(logdir), target, active=True)
        assert scan.to_table().num_rows == 30
        assert topic_of(target).scan().to_table().num_rows == 40

    def test_a_segment_that_a_listing_of_a_log_directory_lacks_is_missed(
        self, tmp_path: Path
    ) -> None:
        """The cleaner was replacing the second segment when the folder was listed."""
        root, back = tmp_path / "broker", tmp_path / "back"
        folder = write_log(root, {at: log_of(at, 100) for at in (0, 100, 200, 300)})
        (root / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 300\n")
        log = folder / f"{100:020d}.log"
        log.rename(log.with_suffix(".log.deleted"))
        source = source_of(root)
        with pytest.raises(StorageUnavailableError, match="read again"):
            topic_of(source).scan(end=300).to_table()
        assert "read again" in " ".join(problems(source))
        with pytest.raises(StorageUnavailableError, match="read again"):
            pull(source, ObjectStore(str(back)), select_partitions(source))

    def test_the_beginning_that_one_listing_of_a_log_directory_lacks_is_read(
        self, logdir: Path
    ) -> None:
        """The cleaner gave the first log its name while the folder was listed."""
        listings = count()

        def lacks(key: str) -> bool:
            return key == f"t-0/{0:020d}.log" and next(listings) == 0

        source = KafkaLog(_Lacking.over(str(logdir), lacks))
        assert offsets(source)[:30] == list(range(30))

    def test_a_log_directory_that_changes_at_each_look_is_to_be_read_again(
        self, logdir: Path
    ) -> None:
        listings = count()

        def lacks(key: str) -> bool:
            return key == f"t-0/{10:020d}.log" and next(listings) % 2 == 0

        source = KafkaLog(_Lacking.over(str(logdir), lacks))
        with pytest.raises(StorageUnavailableError, match="read again"):
            topic_of(source).scan()

    @pytest.mark.parametrize("start", [0, 3, 13, 19])
    @pytest.mark.parametrize(
        "new",
        [log_of(10, value="w"), log_of(10, 5), log_of(10, 20, value="")],
        ids=["other records", "fewer", "those of the next one too"],
    )
    def test_a_scan_never_mixes_what_was_planned_with_what_replaced_it(
        self, logdir: Path, start: int, new: bytes
    ) -> None:
        """What the cleaner has removed may have had its reason behind the plan."""
        scan = topic_of(source_of(logdir)).scan(start=start)
        log = logdir / "t-0" / f"{10:020d}.log"
        log.write_bytes(new)
        stamp = log.stat().st_mtime_ns + 1_000_000_000
        os.utime(log, ns=(stamp, stamp))
        with pytest.raises(StorageUnavailableError, match=r"10: .*read again"):
            scan.to_table()

    def test_listings_are_believed_until_the_object_is_read(
        self, logdir: Path, target: SingleObject
    ) -> None:
        push_all(source_of(logdir), target)
        for entry in list(target.store.list("t/")):
            target.store.put(entry.key, bytes(entry.size or 0), overwrite=True)
        topic = topic_of(SingleObject(target.store))
        assert topic.end_offsets() == {0: 30}
        with pytest.raises(CorruptDataError):
            topic.scan().to_table()


class TestVerify:
    def test_where_segments_overlap_a_shallow_look_asks_more_than_listings(
        self, tmp_path: Path, target: SingleObject
    ) -> None:
        for name, bounds in (("a", (0, 20, 40)), ("b", (0, 10, 40))):
            logs = {
                start: log_of(start, end - start) for start, end in pairwise(bounds)
            }
            write_log(tmp_path / name, {**logs, 40: b""})
            push_all(source_of(tmp_path / name), target)
        counter = RequestCounter()
        storage = SingleObject(ObjectStore(target.store.url, observer=counter))
        assert problems(storage, Depth.LISTING) == []
        assert "get_range" in counter.by_verb()

    def test_what_a_dead_append_left_is_no_problem(self, memory: ObjectStore) -> None:
        tier = Tier(SingleObject(memory))
        tier.create_topic("t", topic_id=ID).append(values_table("a"))
        dying = WatchedStore.over(memory, WRITES - {"delete"}, limit=1)
        with pytest.raises(StorageUnavailableError):
            topic_of(SingleObject(dying)).append(values_table("b"))
        storage = SingleObject(memory)
        assert list(storage.scrub(partition_of()))
        assert problems(storage) == []

    def test_two_logs_that_were_mixed_are_found_only_when_all_is_read(
        self, tmp_path: Path
    ) -> None:
        for name in ("old", "new"):
            logs = {0: log_of(0, 100, value=name), 100: b""}
            write_log(tmp_path / name, logs, topic_id=None)
            archive = SingleObject(ObjectStore(str(tmp_path / f"{name}-archive")))
            push_all(source_of(tmp_path / name), archive)
            shutil.copytree(
                tmp_path / f"{name}-archive", tmp_path / "mixed", dirs_exist_ok=True
            )
        mixed = SingleObject(ObjectStore(str(tmp_path / "mixed")))
        assert problems(mixed, Depth.INDEXES) == []
        assert "of another log" in " ".join(problems(mixed))


class TestPull:
    def test_a_folder_with_another_log_in_it_is_refused(
        self, logdir: Path, target: SingleObject, tmp_path: Path
    ) -> None:
        push_all(source_of(logdir), target)
        back = tmp_path / "back"
        other = back / "t-0" / f"{15:020d}.log"
        other.parent.mkdir(parents=True)
        other.touch()
        with pytest.raises(AlreadyExistsError, match="not part of what is pulled"):
            pull(target, ObjectStore(str(back)), select_partitions(target))
        assert [path.name for path in back.glob("*/*.log")] == [other.name]

    def test_what_was_pulled_of_a_cleaned_log_can_be_read_and_pushed(
        self, tmp_path: Path, memory: ObjectStore, target: SingleObject
    ) -> None:
        """Nothing in the first log itself shows that its last batch was removed."""
        root, back = tmp_path / "broker", tmp_path / "back"
        folder = write_log(root, {0: log_of(0, 15), 20: log_of(20), 30: b""})
        (root / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 30\n")
        push_all(source_of(root), target)
        pull(target, ObjectStore(str(back)), select_partitions(target))
        (back / folder.name / f"{30:020d}.log").touch()
        assert offsets(source_of(back)) == offsets(target)
        again = SingleObject(ObjectStore(f"{memory.url}-again"))
        report = push_all(source_of(back), again)
        assert outcomes(report) == [(0, COPIED), (20, COPIED)]
        assert problems(source_of(back)) == []
        again.delete_partition(partition_of())


def test_pull_copies_a_damaged_log_of_a_layout_without_checksums(
    memory: ObjectStore, tmp_path: Path
) -> None:
    files = files_of(KAFKA / "two-partitions" / REMOTE)
    key = min(
        k for k in files if k.startswith("two-partitions-0-") and k.endswith(".log")
    )
    fill(memory, {**files, key: flipped(files[key], 70)})
    storage = KafkaLocal(memory)
    assert "CRC-32C" in " ".join(
        problem.detail
        for report in verify(storage, storage.list_partitions(), Depth.EVERYTHING)
        for problem in report.problems
    )
    pull(storage, ObjectStore(str(tmp_path)), select_partitions(storage))
    pulled = tmp_path / "two-partitions-0" / f"{0:020d}.log"
    assert pulled.read_bytes() == flipped(files[key], 70)
    with pytest.raises(CorruptDataError, match="CRC-32C"):
        topic_of(source_of(tmp_path), "two-partitions").scan([0]).to_table()


class TestTheStartOfABatch:
    """The first 21 bytes, which no checksum covers."""

    @pytest.fixture
    def gapped(self, tmp_path: Path, target: SingleObject) -> SingleObject:
        """Offsets 0 to 29 of which a cleaner has removed the last ten."""
        log = encode_batch(records(0, 10)) + encode_batch(records(10, 10))
        write_log(tmp_path, {0: log, 30: b""})
        (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 30\n")
        push_all(source_of(tmp_path), target)
        size = len(encode_batch(records(0, 10)))
        replace_batch(
            target,
            lambda data: data[:size] + (20).to_bytes(8, "big") + data[size + 8 :],
        )
        return SingleObject(target.store)

    def test_a_base_offset_may_move_within_a_gap_unseen(
        self, gapped: SingleObject
    ) -> None:
        assert offsets(gapped) == [*range(10), *range(20, 30)]
        assert problems(gapped) != []  # the log's checksum in the manifest

    def test_a_scan_that_ends_in_a_segment_misses_what_moved_past_its_end(
        self, gapped: SingleObject
    ) -> None:
        found = topic_of(gapped).scan(start=0, end=15).to_table()["offset"]
        assert found.to_pylist() == list(range(10))

    def test_in_the_active_segment_the_last_base_offset_may_move_unseen(
        self, tmp_path: Path
    ) -> None:
        last = encode_batch(records(5, 5))
        moved = (1 << 30).to_bytes(8, "big") + last[8:]
        write_log(tmp_path, {0: encode_batch(records(0, 5)) + moved})
        assert offsets(source_of(tmp_path))[5:] == [(1 << 30) + n for n in range(5)]

    @pytest.mark.parametrize("epochs", [[(0, 0)], []])
    def test_a_batch_that_lost_its_epoch_is_not_judged(
        self, epochs: list[tuple[int, int]], memory: ObjectStore
    ) -> None:
        log = encode_batch(records(0, 5), leader_epoch=-1)
        log += encode_batch(records(5, 5), leader_epoch=-1)
        fill(memory, segment(FOLDER, 0, log, epochs=epochs))
        assert offsets(KafkaLocal(memory)) == list(range(10))

    def test_without_epochs_in_the_checkpoint_only_the_last_batch_is_judged(
        self, memory: ObjectStore
    ) -> None:
        log = encode_batch(records(0, 5), leader_epoch=7)
        log += encode_batch(records(5, 5), leader_epoch=-1)
        fill(memory, segment(FOLDER, 0, log, epochs=[]))
        assert offsets(KafkaLocal(memory)) == list(range(10))

    def test_a_checkpoint_that_begins_late_is_taken_for_that_of_a_log_whose_start_moved(
        self, memory: ObjectStore
    ) -> None:
        epochs = [(3, 4)]  # as Kafka leaves it after DeleteRecords up to offset 4
        fill(memory, segment(FOLDER, 0, log_of(0, 10, epoch=3), epochs=epochs))
        storage = KafkaLocal(memory)
        assert offsets(storage) == list(range(10))
        assert problems(storage) == []


class TestAnOffsetIndex:
    """Of a closed segment of four batches, from which a part is read."""

    def scan(self, root: Path, entry: tuple[int, int] | None) -> list[int]:
        log = log_of(0, 20)
        write_log(root, {0: log, 20: log_of(20)})
        index = b"" if entry is None else struct.pack(">ii", *entry)
        (root / "t-0" / f"{0:020d}.index").write_bytes(index)
        (root / "t-0" / f"{20:020d}.index").write_bytes(b"")
        found = topic_of(source_of(root)).scan(start=14, end=17).to_table()
        offsets: list[int] = found["offset"].to_pylist()
        return offsets

    def test_without_entries_at_its_end_gives_the_same_answer(
        self, tmp_path: Path
    ) -> None:
        assert self.scan(tmp_path, None) == [14, 15, 16]

    def test_that_leads_too_early_gives_the_same_answer(self, tmp_path: Path) -> None:
        assert self.scan(tmp_path, (13, len(log_of(0, 5)))) == [14, 15, 16]

    def test_that_leads_too_far_is_an_error(self, tmp_path: Path) -> None:
        position = len(log_of(0, 15))
        with pytest.raises(CorruptIndexError, match="the offset index has"):
            self.scan(tmp_path, (13, position))

    def test_that_leads_into_a_batch_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(CorruptDataError):
            self.scan(tmp_path, (13, len(log_of(0, 10)) + 3))


def test_a_search_by_time_passes_over_a_segment_whose_key_says_it_is_older(
    logdir: Path, target: SingleObject
) -> None:
    push_all(source_of(logdir), target)
    (partition,) = target.list_partitions()
    latest = max(s.max_timestamp_ms or 0 for s in target.list_segments(partition))
    assert topic_of(target).offsets_for_times({0: latest})[0] is not None
    for entry in list(target.store.list("t/")):
        folder, _, name = entry.key.rpartition("/")
        key = KEYS.parse_stem(name.removesuffix(".segment"))
        assert key is not None
        older = replace(key, max_timestamp_ms=latest - 1)
        content = bytes(target.store.get(entry.key))
        target.store.delete([entry.key])
        path = f"{folder}/{KEYS.stem(older)}.segment"
        target.store.put(path, content, overwrite=True)
    stored = SingleObject(target.store)
    assert topic_of(stored).offsets_for_times({0: latest}) == {0: None}
    assert len(problems(stored, Depth.INDEXES)) == 3


def test_nothing_is_pulled_of_two_states_of_a_log(
    target: SingleObject, tmp_path: Path
) -> None:
    """What only the older state has comes before what the later one has."""
    later = log_of(100, 10) + log_of(115, 85)
    for name, start, log, end in (
        ("a", 0, log_of(0, 120), 120),
        ("b", 100, later, 200),
    ):
        write_log(tmp_path / name, {start: log, end: b""})
        (tmp_path / name / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 300\n")
        push_all(source_of(tmp_path / name), target)
    back = tmp_path / "back"
    topic = topic_of(target)
    for ask in (
        topic.scan,
        lambda: topic.read(0, 0),
        lambda: topic.offsets_for_times({0: 0}),
        lambda: pull(target, ObjectStore(str(back)), select_partitions(target)),
    ):
        with pytest.raises(CorruptDataError, match="bring back deleted records"):
            ask()
    assert not back.exists()
    assert topic.scan(on_gap="skip").to_table().num_rows == 195


def test_a_transaction_index_that_is_missing_is_no_error(memory: ObjectStore) -> None:
    files = files_of(KAFKA / "txn" / REMOTE)
    kept = {key: data for key, data in files.items() if not key.endswith(".txnindex")}
    assert len(kept) < len(files)
    fill(memory, kept)
    whole = KafkaLocal(ObjectStore(str(KAFKA / "txn" / REMOTE)))
    expected = topic_of(whole, "txn").scan().to_table()
    assert topic_of(KafkaLocal(memory), "txn").scan().to_table().equals(expected)


def test_a_changed_batch_with_a_right_checksum_passes_every_check(
    memory: ObjectStore,
) -> None:
    fill(memory, segment(FOLDER, 0, encode_batch(records(0, 5, value="a"))))
    fill(memory, segment(FOLDER, 0, encode_batch(records(0, 5, value="b"))))
    storage = KafkaLocal(memory)
    assert problems(storage) == []
    table = topic_of(storage).scan().to_table()
    assert table["value"].to_pylist() == [b"b%d" % at for at in range(5)]
