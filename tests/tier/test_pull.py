"""What was pushed comes back as files, byte for byte, and replaces no other file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from servers import Bucket
from support.damage import flipped
from support.kafka_data import KAFKA
from support.log_directories import (
    ID,
    OTHER_ID,
    closed_files,
    log_of,
    native,
    push_all,
    recorded,
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
    CorruptObjectError,
    ObjectStore,
    RequestEvent,
    UnsupportedOperationError,
)
from tieredfs.log.partitions import select_partitions
from tieredfs.log.pull.pull import PulledSegment, pull
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject

CHECKPOINT = "t-0/leader-epoch-checkpoint"


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    """A log directory with one partition: three closed segments and the active one."""
    root = tmp_path / "broker"
    small(root)
    return root


@pytest.fixture
def stored(logdir: Path, memory: ObjectStore) -> SingleObject:
    """The closed segments in the native layout."""
    push_all(source_of(logdir), SingleObject(memory))
    return SingleObject(memory)


@pytest.fixture
def back(tmp_path: Path) -> Path:
    """Where files are pulled to; not there yet."""
    return tmp_path / "back"


def pull_all(
    storage: RemoteStorageManager, folder: Path, **which: str
) -> list[PulledSegment]:
    return pull(storage, ObjectStore(str(folder)), select_partitions(storage, **which))


def test_a_broker_can_be_given_what_was_pulled(
    stored: SingleObject, logdir: Path, back: Path
) -> None:
    pulled = pull_all(stored, back)
    assert [(one.segment.start_offset, one.written) for one in pulled] == [
        (start, 4) for start in (0, 10, 20)
    ]
    files = files_of(back)
    assert closed_files(logdir).items() <= files.items()
    for name in ("partition.metadata", "leader-epoch-checkpoint"):
        assert files[f"t-0/{name}"] == (logdir / "t-0" / name).read_bytes()
    read = topic_of(KafkaLog(ObjectStore(str(back))))
    assert read.topic_id == ID
    assert read.scan().to_table() == topic_of(stored).scan().to_table()


def test_what_was_pulled_and_pushed_is_the_same_tier(
    stored: SingleObject, back: Path, tmp_path: Path
) -> None:
    pull_all(stored, back)
    again = native(Bucket(str(tmp_path / "again"), {}))
    push_all(source_of(back), again, active=True)
    names = [sorted(e.key for e in one.store.list()) for one in (stored, again)]
    assert names[0] == names[1]


def test_a_second_pull_writes_nothing(stored: SingleObject, back: Path) -> None:
    pull_all(stored, back)
    before = {path: path.stat().st_mtime_ns for path in back.rglob("*")}
    assert {one.written for one in pull_all(stored, back)} == {0}
    assert {path: path.stat().st_mtime_ns for path in back.rglob("*")} == before


def test_a_pull_that_was_ended_is_taken_up(stored: SingleObject, back: Path) -> None:
    pull_all(stored, back)
    whole = files_of(back)
    for name in (f"{10:020d}.log", f"{20:020d}.index", "leader-epoch-checkpoint"):
        (back / "t-0" / name).unlink()
    pulled = pull_all(stored, back)
    assert [one.written for one in pulled] == [0, 1, 1]
    assert files_of(back) == whole


def test_it_tells_of_each_segment_when_it_is_done(
    stored: SingleObject, back: Path
) -> None:
    seen: list[PulledSegment] = []
    target = ObjectStore(str(back))
    pulled = pull(stored, target, stored.list_partitions(), progress=seen.append)
    assert seen == pulled


@pytest.mark.parametrize("suffix", ["log", "index", "timeindex"])
@pytest.mark.parametrize(
    "change", [lambda d: d + b"x", lambda d: b"\1" + d[1:]], ids=["grown", "other"]
)
def test_a_file_with_other_content_is_left_as_it_is(
    suffix: str, change: Callable[[bytes], bytes], stored: SingleObject, back: Path
) -> None:
    pull_all(stored, back)
    file = back / "t-0" / f"{10:020d}.{suffix}"
    file.write_bytes(change(file.read_bytes()))
    before = files_of(back)
    with pytest.raises(AlreadyExistsError, match=file.name):
        pull_all(stored, back)
    assert files_of(back) == before


def test_a_log_too_large_for_memory_is_compared_likewise(
    stored: SingleObject, back: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull_all(stored, back)
    whole = files_of(back)
    monkeypatch.setattr("tieredfs.storage.spool_log.MAX_MEMORY_BYTES", 100)
    assert {one.written for one in pull_all(stored, back)} == {0}
    log = back / "t-0" / f"{10:020d}.log"
    log.unlink()
    assert [one.written for one in pull_all(stored, back)] == [0, 1, 0]
    assert files_of(back) == whole
    log.write_bytes(flipped(log.read_bytes(), 150))
    with pytest.raises(AlreadyExistsError, match=log.name):
        pull_all(stored, back)


def test_the_folder_of_another_topic_of_this_name_is_refused(
    stored: SingleObject, back: Path
) -> None:
    write_log(back, {100: log_of(100)}, topic_id=OTHER_ID)
    before = files_of(back)
    with pytest.raises(AlreadyExistsError, match=r"partition\.metadata"):
        pull_all(stored, back)
    assert files_of(back) == before


@pytest.mark.parametrize("layout", [SingleObject, KafkaLocal])
def test_an_archive_is_not_pulled_into(
    layout: type[SingleObject | KafkaLocal], stored: SingleObject, tmp_path: Path
) -> None:
    archive = layout(ObjectStore(str(tmp_path / "archive")))
    push_all(source_of(KAFKA / "plain" / "raw-log-dir"), archive)
    before = sorted(entry.key for entry in archive.store.list())
    with pytest.raises(AlreadyExistsError, match="is an archive"):
        pull(stored, archive.store, stored.list_partitions())
    assert sorted(entry.key for entry in archive.store.list()) == before


def test_a_log_directory_with_an_archive_in_it_is_not_pulled_into(
    stored: SingleObject, logdir: Path
) -> None:
    push_all(source_of(logdir), SingleObject(ObjectStore(str(logdir))))
    before = files_of(logdir)
    with pytest.raises(AlreadyExistsError, match="more than a log directory"):
        pull_all(stored, logdir)
    assert files_of(logdir) == before


class TestTwoPullsIntoOneFolder:
    """One that writes what another has just seen to be missing."""

    def test_both_succeed_where_they_pull_the_same(
        self, stored: SingleObject, back: Path
    ) -> None:
        """Whichever file the other one has written first."""
        target = _Rival(back, lambda: pull_all(stored, back)).store
        pulled = pull(stored, target, stored.list_partitions())
        assert [one.written for one in pulled] == [0, 0, 0]
        whole = files_of(back)
        assert {one.written for one in pull_all(stored, back)} == {0}
        assert files_of(back) == whole

    @pytest.mark.parametrize("size", [4, len("version: 0\ntopic_id: ") + len(ID)])
    def test_the_later_one_says_where_its_file_would_differ(
        self, size: int, stored: SingleObject, back: Path
    ) -> None:
        file = back / "t-0" / "partition.metadata"

        def write_other() -> None:
            file.parent.mkdir(parents=True)
            file.write_bytes(b"x" * size)

        target = _Rival(back, write_other).store
        with pytest.raises(
            AlreadyExistsError, match=r"differs|4 bytes, the pulled file"
        ) as told:
            pull(stored, target, stored.list_partitions())
        assert str(file) in str(told.value)
        assert file.read_bytes() == b"x" * size


class _Rival:
    """Another process, which writes when a file was looked for and is not there."""

    def __init__(self, folder: Path, write: Callable[[], object]) -> None:
        self._write = write
        self._is_done = False
        self.store = ObjectStore(str(folder), observer=self)

    def on_request(self, event: RequestEvent) -> None:
        if event.verb == "head" and not self._is_done:
            self._is_done = True
            self._write()


class TestTheCleanersCheckpoint:
    """Of a folder into which a log is pulled that ends early."""

    @pytest.fixture
    def cleaned(self, memory: ObjectStore, tmp_path: Path) -> SingleObject:
        """A compacted topic without its last records."""
        root = tmp_path / "cleaned"
        write_log(root, {0: log_of(0, 5), 10: log_of(10)})
        (root / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 10\n")
        target = SingleObject(memory)
        push_all(source_of(root), target)
        return target

    @pytest.mark.parametrize("there", ["0\n1\nt 0 3\n", "0\n2\na 0 1\nt 0 99\n"])
    def test_an_entry_that_is_there_stays(
        self, there: str, cleaned: SingleObject, back: Path
    ) -> None:
        back.mkdir()
        (back / "cleaner-offset-checkpoint").write_text(there)
        pull(cleaned, ObjectStore(str(back)), cleaned.list_partitions())
        assert (back / "cleaner-offset-checkpoint").read_text() == there

    @pytest.mark.parametrize("there", ["", "garbage", "0\n7\nt 0 3\n", "1\n0\n"])
    def test_what_is_none_is_refused_and_stays(
        self, there: str, cleaned: SingleObject, back: Path
    ) -> None:
        back.mkdir()
        (back / "cleaner-offset-checkpoint").write_text(there)
        with pytest.raises(AlreadyExistsError, match="not a checkpoint"):
            pull(cleaned, ObjectStore(str(back)), cleaned.list_partitions())
        assert (back / "cleaner-offset-checkpoint").read_text() == there


class TestLeaderEpochs:
    def test_the_checkpoint_grows_with_the_log(
        self, tmp_path: Path, memory: ObjectStore, back: Path
    ) -> None:
        logs = {0: log_of(0), 10: log_of(10, epoch=3), 20: b""}
        epochs = ((0, 0), (3, 10))
        write_log(tmp_path / "a", {0: logs[0], 10: b""})
        write_log(tmp_path / "b", logs, epochs=epochs)
        target = SingleObject(memory)
        push_all(source_of(tmp_path / "a"), target)
        pull_all(target, back)
        assert (back / CHECKPOINT).read_bytes() == b"0\n1\n0 0\n"
        push_all(source_of(tmp_path / "b"), target)
        pull_all(target, back)
        assert (back / CHECKPOINT).read_bytes() == b"0\n2\n0 0\n3 10\n"

    def test_one_that_knows_more_is_left_as_it_is(
        self, stored: SingleObject, back: Path
    ) -> None:
        pull_all(stored, back)
        (back / CHECKPOINT).write_text("0\n2\n0 0\n7 30\n")
        pull_all(stored, back)
        assert (back / CHECKPOINT).read_text() == "0\n2\n0 0\n7 30\n"

    @pytest.mark.parametrize("text", ["0\n1\n1 0\n", "nonsense", "9\n"])
    def test_one_of_another_history_is_refused(
        self, text: str, stored: SingleObject, back: Path
    ) -> None:
        pull_all(stored, back)
        (back / CHECKPOINT).write_text(text)
        with pytest.raises(AlreadyExistsError, match="leader-epoch-checkpoint"):
            pull_all(stored, back)
        assert (back / CHECKPOINT).read_text() == text


class TestWhatNoBrokerHas:
    def test_two_topics_of_one_name_are_refused_and_an_id_chooses(
        self, stored: SingleObject, tmp_path: Path, back: Path
    ) -> None:
        folder = small(tmp_path / "other", topic_id=OTHER_ID)
        (folder / f"{30:020d}.log").unlink()
        push_all(source_of(tmp_path / "other"), stored)
        with pytest.raises(UnsupportedOperationError, match=ID) as refused:
            pull_all(stored, back)
        assert OTHER_ID in str(refused.value)
        assert not back.exists()
        pull_all(stored, back, topic_id=OTHER_ID)
        assert OTHER_ID in (back / "t-0" / "partition.metadata").read_text()
        assert len(list(back.glob("*/*.log"))) == 2

    def test_what_is_needed_of_segments_that_overlap_is_cut_out_of_them(
        self, memory: ObjectStore, back: Path
    ) -> None:
        for start in (0, 5):
            log = b"".join(encode_batch(records(at, 5)) for at in (start, start + 5))
            fill(memory, segment(f"t-0-{ID}", start, log))
        pulled = pull_all(KafkaLocal(memory), back)
        assert [one.is_cut for one in pulled] == [False, True]
        logs = {file.name: file.read_bytes() for file in back.glob("t-0/*.log")}
        first = b"".join(encode_batch(records(at, 5)) for at in (0, 5))
        cut = encode_batch(records(10, 5))
        assert logs == {f"{0:020d}.log": first, f"{10:020d}.log": cut}

    def test_a_batch_with_offsets_on_both_sides_of_a_cut_is_written_anew(
        self, memory: ObjectStore, back: Path
    ) -> None:
        for start in (0, 5):
            fill(memory, segment(f"t-0-{ID}", start, encode_batch(records(start, 10))))
        expected = topic_of(KafkaLocal(memory)).scan().to_table()
        pulled = pull_all(KafkaLocal(memory), back)
        assert [one.is_cut for one in pulled] == [False, True]
        assert topic_of(source_of(back)).scan().to_table().equals(expected)

    def test_a_segment_that_a_longer_one_holds_is_left_out(
        self, logdir: Path, stored: SingleObject, back: Path
    ) -> None:
        """The active segment, as far as it went, and then the whole of it."""
        push_all(source_of(logdir), stored, active=True)
        folder = logdir / "t-0"
        (folder / f"{30:020d}.log").write_bytes(log_of(30, 20))
        (folder / f"{50:020d}.log").touch()
        push_all(source_of(logdir), stored)
        pull_all(stored, back)
        assert closed_files(logdir).items() <= files_of(back).items()


class TestDamage:
    def test_of_a_log_that_is_not_what_was_stored_nothing_is_written(
        self, logdir: Path, tmp_path: Path, back: Path
    ) -> None:
        target = native(Bucket(str(tmp_path / "stored"), {}))
        push_all(source_of(logdir), target)
        victim = sorted((tmp_path / "stored").rglob("*.segment"))[1]
        victim.write_bytes(flipped(victim.read_bytes(), 30))
        with pytest.raises(CorruptObjectError, match=victim.name):
            pull_all(native(Bucket(str(tmp_path / "stored"), {})), back)
        assert sorted(path.name for path in back.glob("*/*.log")) == [f"{0:020d}.log"]

    def test_a_partition_with_strangers_objects_alone_is_nothing(
        self, memory: ObjectStore, stored: SingleObject, back: Path
    ) -> None:
        memory.put(f"u/{ID}/0/notes.txt", b"x", overwrite=True)
        pulled = pull_all(stored, back)
        assert {str(one.segment.partition) for one in pulled} == {"t-0"}
        assert not (back / "u-0").exists()


def test_any_layout_can_be_pulled(
    tmp_path: Path, memory: ObjectStore, back: Path
) -> None:
    root = recorded("txn", tmp_path / "broker")
    push_all(source_of(root), KafkaLocal(memory))
    pull_all(KafkaLocal(memory), back)
    assert closed_files(root).items() <= files_of(back).items()


def test_a_tier_with_a_hole_is_refused_and_not_closed_over(
    stored: SingleObject, back: Path
) -> None:
    partition = stored.list_partitions()[0]
    stored.delete_log_segment(stored.list_segments(partition)[1])
    with pytest.raises(CorruptDataError, match="no segment holds the offsets 10 to 19"):
        pull_all(stored, back)
    assert not back.exists()
