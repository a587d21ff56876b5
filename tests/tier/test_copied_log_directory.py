"""A log directory that a tool has copied, whole or not: what is read of it is right.

What is missing is an error that names it, or the log ends before it.
"""

import struct
import uuid
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.copied_logs import CopiedLog, Fate, batch_ends, recorded_log
from support.events import Events
from support.golden import rows_of
from support.log_directories import (
    outcomes,
    push_all,
    source_of,
    topic_of,
    write_log,
)
from support.segments import records
from support.wire import encode_batch
from tieredfs import (
    CorruptBatchError,
    CorruptDataError,
    IndexType,
    NotFoundError,
    ObjectStore,
    SegmentMetadata,
    Tier,
    TieredFSError,
    Topic,
)
from tieredfs.log.partitions import select_partitions
from tieredfs.log.pull.pull import pull
from tieredfs.log.push.push import PushOutcome
from tieredfs.log.verify.verify import Depth, verify
from tieredfs.storage import RemoteStorageManager, StorageWrapper
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject

NAMES = ("epochs", "txn", "compacted")
CLEANED = {"cleaner-offset-checkpoint": b"0\n1\ncompacted 0 1397\n"}

fates = st.builds(
    Fate, st.none() | st.floats(0, 1), st.sampled_from([0, 0, 1000, None])
)
places = pytest.mark.parametrize("is_distant", [False, True], ids=["memory", "distant"])


def read(
    topic: Topic,
    **options: Any,  # noqa: ANN401 - those of a scan
) -> tuple[list[dict[str, Any]], TieredFSError | None]:
    """Return the records before the first error, and the error if there is one."""
    found: list[dict[str, Any]] = []
    try:
        for batch in topic.scan(**options):
            found += rows_of(pa.Table.from_batches([batch]))
    except TieredFSError as error:
        return found, error
    return found, None


def memory() -> ObjectStore:
    """Return an empty store."""
    return ObjectStore(f"memory://{uuid.uuid4().hex}")


def check_each(log: CopiedLog, found: list[dict[str, Any]]) -> None:
    """Check that records are the broker's, in order, each once."""
    offsets = [row["offset"] for row in found]
    assert offsets == sorted(set(offsets))
    assert found == [{**log.rows[row["offset"]]} for row in found]


def left_of(log: CopiedLog, files: Mapping[str, bytes]) -> list[int]:
    """Return the offsets of the records whose batches were copied whole."""
    found: list[int] = []
    logs_end = f"-0/{max(log.rows) + 1:020d}.log"
    for key, following in pairwise([*log.logs, logs_end]):
        copied, whole = files.get(key, b""), log.files[key]
        starts = [first for _, first in batch_ends(whole)]
        ends = [end for end, _ in batch_ends(whole)]
        limits = [*starts[1:], int(following[-24:-4])][: len(ends)]
        for end, first, limit in zip(ends, starts, limits, strict=True):
            if len(copied) >= end and copied[:end] == whole[:end]:
                found += [o for o in range(first, limit) if o in log.rows]
    return sorted(set(found))


def is_in_doubt(log: CopiedLog, files: Mapping[str, bytes]) -> bool:
    """Return whether a cleaner may have left a log just so, as far as can be seen.

    It removes whole batches, and whole segments with all of their files.
    """
    for key, following in pairwise(log.logs):
        stem = key.removesuffix("log")
        indexes = [f"{stem}{kind}" for kind in ("index", "timeindex")]
        if key not in files:
            if not any(name in files for name in (*indexes, f"{stem}txnindex")):
                return True
            continue
        is_cut = len(files[key]) < len(log.files[key])
        ends = {0, *(end for end, _ in batch_ends(log.files[key]))}
        is_last = not any(later in files for later in log.logs if later >= following)
        times = files.get(f"{stem}timeindex", b"").strip(b"\0")
        if files[key] and not times:
            continue  # nothing shows that the cleaner has been there
        if is_cut and len(files[key]) in ends and not is_last:
            whole = [files.get(name) == log.files[name] for name in indexes]
            if not all(whole) or len(files[key]) > log.last_indexed(key):
                return True
    return False


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data(), is_distant=st.booleans())
def test_whatever_was_copied_no_record_is_wrong_and_none_is_missing_unseen(
    name: str, data: st.DataObject, is_distant: bool
) -> None:
    log = recorded_log(name)
    drawn = data.draw(
        st.dictionaries(st.sampled_from(sorted(log.files)), fates, max_size=4)
    )
    files = log.copied(drawn)
    assume(files)
    if name == "compacted" and data.draw(st.booleans()):
        files |= CLEANED
    topic = log.put(files, is_distant=is_distant)
    found, error = read(topic)
    check_each(log, found)
    if error is not None:
        assert f"{name}-0" in str(error)
        return
    if name == "compacted" and is_in_doubt(log, files):
        return
    ((_, start),) = topic.beginning_offsets().items()
    ((_, end),) = topic.end_offsets().items()
    assert [row["offset"] for row in found] == [
        offset for offset in sorted(log.rows) if start <= offset < end
    ]


def bounds_of(topic: Topic) -> tuple[int, int] | None:
    """Return the first offset and the end; None if the last batch is damaged."""
    try:
        ((_, start),) = topic.beginning_offsets().items()
        ((_, end),) = topic.end_offsets().items()
    except CorruptBatchError:
        return None
    return start, end


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data(), is_distant=st.booleans())
def test_what_was_copied_whole_is_read_where_gaps_are_skipped(
    name: str, data: st.DataObject, is_distant: bool
) -> None:
    log = recorded_log(name)
    drawn = data.draw(
        st.dictionaries(st.sampled_from(log.logs), fates, min_size=1, max_size=3)
    )
    files = log.copied(drawn)
    topic = log.put(files, is_distant=is_distant)
    assume(any(key in files for key in log.logs))
    bounds = bounds_of(topic)
    if bounds is None:  # zeros inside the last batch of all
        assert any(fate.has_zeros for fate in drawn.values())
        return
    start, end = bounds
    start = data.draw(st.integers(start, max(start, end - 1)))
    found, error = read(topic, start=start, on_gap="skip")
    check_each(log, found)
    if error is not None:  # zeros inside a batch may be any damage
        assert "CRC-32C" in str(error)
        assert any(fate.has_zeros for fate in drawn.values())
        return
    left = [offset for offset in left_of(log, files) if offset >= start]
    assert [row["offset"] for row in found] == left


@places
@pytest.mark.parametrize("name", NAMES)
def test_a_whole_copy_is_read_verified_pulled_and_pushed(
    name: str, is_distant: bool
) -> None:
    log = recorded_log(name)
    topic = log.put(log.files, is_distant=is_distant)
    found, error = read(topic)
    assert found == [log.rows[offset] for offset in sorted(log.rows)]
    assert error is None
    source = topic._storage
    assert problems(source) == []
    back, archive = memory(), memory()
    pull(source, back, select_partitions(source))
    assert read(Tier(KafkaLog(back)).topic(name)) == (found, None)
    report = push_all(source, SingleObject(archive), active=True)
    assert {outcome for _, outcome in outcomes(report)} == {PushOutcome.COPIED}
    assert read(Tier(SingleObject(archive)).topic(name)) == (found, None)


def problems(
    source: RemoteStorageManager, depth: Depth = Depth.EVERYTHING
) -> list[str]:
    (report,) = verify(source, source.list_partitions(), depth)
    return [problem.detail for problem in report.problems]


class TestALogThatIsMissing:
    @pytest.mark.parametrize("left", ["index", "timeindex", "log.5dba8f0c.partial"])
    def test_is_named_by_what_is_left_of_it(self, left: str) -> None:
        log = recorded_log("compacted")
        stem = log.logs[1].removesuffix("log")
        files = {k: v for k, v in log.files.items() if not k.startswith(stem)}
        files = {**files, **CLEANED, f"{stem}{left}": b""}
        topic = log.put(files, is_distant=True)
        with pytest.raises(CorruptDataError, match="holds the offsets 386 to 765"):
            topic.scan()
        assert "386 to 765" in " ".join(problems(topic._storage, Depth.LISTING))
        found, _ = read(topic, on_gap="skip")
        check_each(log, found)
        assert {o for o in log.rows if not 386 <= o < 766} == {
            row["offset"] for row in found
        }

    def test_at_the_beginning_makes_the_log_begin_later(self) -> None:
        log = recorded_log("epochs")
        topic = log.put(log.copied({log.logs[0]: Fate(None)}), is_distant=True)
        assert topic.beginning_offsets() == {0: 200}
        assert topic.scan().to_table().num_rows == 400

    def test_at_the_end_makes_the_log_end_earlier(self) -> None:
        log = recorded_log("epochs")
        topic = log.put(log.copied({log.logs[-1]: Fate(None)}), is_distant=True)
        assert topic.end_offsets() == {0: 500}
        assert topic.scan().to_table().num_rows == 500


class TestALogThatIsCutBetweenTwoBatches:
    """What is left looks as if the cleaner had removed the rest."""

    def cut(self, more: Mapping[str, bytes]) -> tuple[Topic, CopiedLog]:
        log = recorded_log("compacted")
        key = log.logs[1]
        (end, _) = batch_ends(log.files[key])[3]
        files = {**log.files, key: log.files[key][:end], **more}
        return log.put(files, is_distant=True), log

    @pytest.mark.parametrize("more", [{}, CLEANED], ids=["seen", "noted"])
    def test_is_not_taken_for_cleaned(self, more: Mapping[str, bytes]) -> None:
        topic, _ = self.cut(more)
        with pytest.raises(CorruptDataError, match=r"386: the log ends before offset"):
            topic.scan().to_table()
        found, error = read(topic, on_gap="skip")
        assert error is None
        assert found[-1]["offset"] == 1424

    def test_is_neither_pushed_nor_pulled(self) -> None:
        topic, _ = self.cut(CLEANED)
        source = topic._storage
        back, archive = memory(), memory()
        with pytest.raises(CorruptDataError, match=r"386: the log ends before offset"):
            pull(source, back, select_partitions(source))
        report = push_all(source, SingleObject(archive))
        failed = [at for at, how in outcomes(report) if how is not PushOutcome.COPIED]
        assert failed == [386]
        assert "386" in " ".join(problems(source))

    @pytest.mark.parametrize("left", [None, b"", bytes(24)], ids=str)
    @pytest.mark.parametrize("more", [{}, CLEANED], ids=["seen", "noted"])
    def test_indexes_without_an_entry_do_not_show_that_it_was_cleaned(
        self, left: bytes | None, more: Mapping[str, bytes]
    ) -> None:
        log = recorded_log("compacted")
        key = log.logs[1]
        stem = key.removesuffix("log")
        (end, _) = batch_ends(log.files[key])[3]
        files = {**log.files, key: log.files[key][:end], **more}
        for name in (f"{stem}index", f"{stem}timeindex"):
            del files[name]
            if left is not None:
                files[name] = left
        topic = log.put(files, is_distant=True)
        with pytest.raises(CorruptBatchError, match=r"386: .*time index has no entry"):
            topic.scan().to_table()
        found, error = read(topic, on_gap="skip")
        assert error is None
        assert found[-1]["offset"] == 1424
        source = topic._storage
        with pytest.raises(CorruptBatchError, match=r"386: .*time index has no entry"):
            pull(source, memory(), select_partitions(source))
        report = push_all(source, SingleObject(memory()))
        failed = [at for at, how in outcomes(report) if how is not PushOutcome.COPIED]
        assert failed == [386]

    def test_records_without_timestamps_need_no_entry(self, tmp_path: Path) -> None:
        for name, timestamp in (("untimed", -100), ("timed", 100)):
            log = encode_batch(records(0, 5, timestamp=timestamp))
            root = tmp_path / name
            folder = write_log(root, {0: log, 10: b""})
            (folder / f"{0:020d}.timeindex").unlink(missing_ok=True)
            (root / "cleaner-offset-checkpoint").write_bytes(b"0\n1\nt 0 10\n")
            topic, target = topic_of(source_of(root)), SingleObject(memory())
            found, error = read(topic)
            assert len(found) == 5
            assert (error is None) == (name == "untimed")
            ((_, how),) = outcomes(push_all(source_of(root), target))
            assert (how is PushOutcome.COPIED) == (name == "untimed")

    def test_a_time_index_that_the_cleaner_has_just_renamed_is_found(
        self, tmp_path: Path
    ) -> None:
        folder = write_log(tmp_path, {0: encode_batch(records(0, 5)), 10: b""})
        (tmp_path / "cleaner-offset-checkpoint").write_bytes(b"0\n1\nt 0 10\n")
        entry = struct.pack(">qi", 1_700_000_000_004, 4)
        missing: list[SegmentMetadata] = []

        class Renaming(StorageWrapper):
            def fetch_index(
                self, metadata: SegmentMetadata, index_type: IndexType
            ) -> memoryview:
                if index_type is IndexType.TIMESTAMP and not missing:
                    missing.append(metadata)
                    (folder / f"{0:020d}.timeindex").write_bytes(entry)
                    raise NotFoundError("not found: it was a .swap file")
                return super().fetch_index(metadata, index_type)

        report = push_all(Renaming(source_of(tmp_path)), SingleObject(memory()))
        assert outcomes(report) == [(0, PushOutcome.COPIED)]
        assert missing


def test_a_batch_that_only_claims_more_than_there_is_is_not_skipped() -> None:
    log = recorded_log("epochs")
    key = log.logs[0]
    end, _ = batch_ends(log.files[key])[0]
    content = bytearray(log.files[key])
    content[end + 8 : end + 12] = (1 << 20).to_bytes(4, "big")
    topic = log.put({**log.files, key: bytes(content)}, is_distant=True)
    with pytest.raises(CorruptDataError, match=f"position {end}"):
        topic.scan(on_gap="skip").to_table()


@pytest.mark.parametrize(
    ("checkpoint", "first"),
    [
        (b"0\n1\nepochs 0 250\n", 200),
        (b"0\n2\nepochs 1 250\nepochs 0 400\n", 400),
        (b"0\n1\nepochs 0 9000\n", 500),
        (b"0\n1\nother 0 250\n", 0),
        (b"0\n1\nepochs 0", 0),
        (b"\xff", 0),
    ],
)
def test_segments_before_the_log_start_offset_are_left_out(
    checkpoint: bytes, first: int
) -> None:
    log = recorded_log("epochs")
    files = {**log.files, "log-start-offset-checkpoint": checkpoint}
    topic = log.put(files, is_distant=True)
    assert topic.beginning_offsets() == {0: first}
    assert topic.scan().to_table()["offset"].to_pylist() == list(range(first, 600))


@pytest.mark.parametrize("content", [b"", b"0\n1\n0 0\n", b"0\n3\n0 0\n2 100\n4 200\n"])
def test_an_older_checkpoint_of_the_leader_epochs_is_named_and_can_be_removed(
    content: bytes,
) -> None:
    log = recorded_log("epochs")
    key = "epochs-0/leader-epoch-checkpoint"
    with pytest.raises(CorruptDataError, match="may be older than the log"):
        log.put({**log.files, key: content}, is_distant=True).scan()
    topic = log.put(log.copied({key: Fate(None)}), is_distant=True)
    assert topic.scan().to_table().num_rows == 600


def test_foreign_files_are_ignored() -> None:
    log = recorded_log("epochs")
    extra = (
        ".DS_Store",
        "epochs-0/.DS_Store",
        "epochs-0/00000000000000000200.log.5dba8f0c.partial",
        "epochs-0/.rclone-upload",
        "epochs-1.0123456789abcdef0123456789abcdef-stray/00000000000000000000.log",
        "meta.properties",
    )
    topic = log.put({**log.files, **dict.fromkeys(extra, b"x")}, is_distant=True)
    assert topic.partitions == (0,)
    assert topic.scan().to_table().num_rows == 600


class TestRequests:
    def test_to_list_a_topic_takes_one_for_each_partition(self) -> None:
        log = recorded_log("epochs")
        files = {
            key.replace("epochs-0/", f"epochs-{number}/"): content
            for number in range(20)
            for key, content in log.files.items()
        }
        url = log.put(files, is_distant=True)._storage.store.url
        events = Events()
        KafkaLog(ObjectStore(url, observer=events)).list_partitions("epochs")
        assert events.by_verb() == {"list": 1, "get": 20}

    def test_whether_a_segment_is_current_takes_one(self) -> None:
        log = recorded_log("epochs")
        url = log.put(log.files, is_distant=True)._storage.store.url
        events = Events()
        source = KafkaLog(ObjectStore(url, observer=events))
        (partition,) = source.list_partitions()
        for segment in source.list_segments(partition):
            events.clear()
            assert source.is_current(segment, segment.end_offset)
            assert events.by_verb() == {"head": 1}


def test_an_index_that_was_left_of_a_merged_segment_cuts_nothing(
    tmp_path: Path,
) -> None:
    log = b"".join(
        encode_batch(records(at, 5, value="v" * 900)) for at in range(100, 150, 5)
    )
    folder = write_log(tmp_path, {100: log, 150: b""})
    size = len(log) // 10
    (folder / f"{100:020d}.index").write_bytes(struct.pack(">ii", 44, 8 * size))
    (folder / f"{120:020d}.index").write_bytes(b"")
    (folder / f"{120:020d}.log.bak").write_bytes(b"mine")
    found = topic_of(source_of(tmp_path)).scan().to_table()
    assert found["offset"].to_pylist() == list(range(100, 150))
