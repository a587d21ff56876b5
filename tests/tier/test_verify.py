"""Nothing that is wrong with a tier escapes: holes, cuts, flips, untrue indexes."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.damage import damaged, flipped
from support.kafka_data import KAFKA, LOCAL, REMOTE
from support.log_directories import (
    ID,
    OTHER_ID,
    RECORDED,
    log_of,
    partition_of,
    push_all,
    recorded,
    small,
    source_of,
    write_log,
)
from support.segments import segment
from support.stores import files_of, fill, make_place, open_store
from support.wire import WireRecord, encode_batch
from tieredfs import (
    CorruptBatchError,
    ErrorKind,
    ObjectStore,
    RequestCounter,
    RequestPolicy,
    SegmentIndexes,
    SegmentMetadata,
    StorageUnavailableError,
    Tier,
    open_storage,
)
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.log.push.push import push
from tieredfs.log.verify.verify import Depth, PartitionReport, Problem, verify
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.storage.layouts.single_object.stored_log import Compression

DEPTHS = list(Depth)


def check(storage: RemoteStorageManager, depth: Depth) -> list[Problem]:
    reports = verify(storage, storage.list_partitions(), depth)
    return [problem for report in reports for problem in report.problems]


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


class OneObject:
    """The object of a small segment, which can be replaced by others."""

    def __init__(
        self, store: ObjectStore, compression: Compression | None = None
    ) -> None:
        self._store = store
        storage = SingleObject(store, compression=compression)
        (only,) = self._partitions = storage.list_partitions()
        (self.segment,) = storage.list_segments(only)
        (entry,) = (e for e in store.list() if e.key.endswith(".segment"))
        self.key = entry.key
        self.data = bytes(store.get(entry.key))
        self.log_length = int(self.key.split("/")[-1].split("-")[4])

    def problems(self, data: bytes, depth: Depth) -> list[Problem]:
        """Return what is wrong when the object has other bytes."""
        self._store.put(self.key, data, overwrite=True)
        storage = SingleObject(self._store)
        (report,) = verify(storage, self._partitions, depth)
        return list(report.problems)


@pytest.fixture(params=[None, "zstd"], ids=["plain", "zstd"])
def one(
    request: pytest.FixtureRequest, tmp_path: Path, memory: ObjectStore
) -> OneObject:
    """The object of a segment of two batches."""
    write_log(tmp_path, {0: log_of(0), 10: b""})
    push_all(source_of(tmp_path), SingleObject(memory, compression=request.param))
    made = OneObject(memory, request.param)
    assert made.problems(made.data, Depth.EVERYTHING) == []
    return made


class TestEveryByte:
    def test_every_flip_in_the_tail_is_noticed(self, one: OneObject) -> None:
        missed = [
            at
            for at in range(one.log_length, len(one.data))
            if not one.problems(flipped(one.data, at, 1 << at % 8), Depth.INDEXES)
        ]
        assert missed == []

    def test_every_flip_in_the_log_is_noticed_when_all_is_read(
        self, one: OneObject
    ) -> None:
        missed = [
            at
            for at in range(one.log_length)
            if not one.problems(flipped(one.data, at, 1 << at % 8), Depth.EVERYTHING)
        ]
        assert missed == []

    def test_every_cut_is_noticed_in_the_listing(self, one: OneObject) -> None:
        missed = [
            size
            for size in range(len(one.data))
            if not one.problems(one.data[:size], Depth.LISTING)
        ]
        assert missed == []
        assert one.problems(one.data + b"\0", Depth.LISTING)

    def test_what_is_wrong_names_the_object(self, one: OneObject) -> None:
        name = one.key.split("/")[-1]
        for depth in DEPTHS:
            found = one.problems(one.data[:-1], depth)
            assert [problem.kind for problem in found] == [ErrorKind.CORRUPT_OBJECT]
            assert name in found[0].detail
        (found_one,) = one.problems(flipped(one.data, 40), Depth.EVERYTHING)[:1]
        assert one.segment.id in found_one.detail
        assert found_one.partition == one.segment.partition


@pytest.fixture(scope="module")
def real(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> OneObject:
    """The object of a segment that a broker wrote, with a transaction index."""
    folder = tmp_path_factory.mktemp("real")
    root = recorded("txn", folder)
    logs = sorted(root.glob("*/*.log"))
    aborts = [log for log in logs[:-1] if log.with_suffix(".txnindex").exists()]
    following = logs[logs.index(aborts[0]) + 1]
    for log in logs:
        if log not in {aborts[0], following}:
            log.unlink()
    store = open_store(make_place("memory", request, folder))
    push_all(source_of(root), SingleObject(store))
    return OneObject(store)


@settings(max_examples=60)
@given(draw=st.data())
def test_whatever_happens_to_an_object_is_noticed_when_all_is_read(
    draw: st.DataObject, real: OneObject
) -> None:
    data = draw.draw(damaged(real.data))
    found = real.problems(data, Depth.EVERYTHING)
    assert bool(found) == (data != real.data)


class TestWhatIsWhole:
    @pytest.mark.parametrize("depth", DEPTHS)
    @pytest.mark.parametrize("topic", RECORDED)
    def test_what_was_pushed_has_no_problem(
        self, topic: str, depth: Depth, memory: ObjectStore, tmp_path: Path
    ) -> None:
        push_all(
            source_of(recorded(topic, tmp_path)), SingleObject(memory), active=True
        )
        assert check(SingleObject(memory), depth) == []

    @pytest.mark.parametrize("depth", DEPTHS)
    @pytest.mark.parametrize(
        "path",
        [
            *sorted(p.relative_to(KAFKA) for p in KAFKA.glob(f"*/{REMOTE}")),
            *sorted(p.relative_to(KAFKA) for p in KAFKA.glob(f"*/{LOCAL}")),
        ],
        ids=str,
    )
    def test_what_a_broker_wrote_has_no_problem(self, path: Path, depth: Depth) -> None:
        assert check(open_storage(ObjectStore(str(KAFKA / path))), depth) == []

    def test_a_report_says_what_was_looked_at(
        self, stored: SingleObject, logdir: Path
    ) -> None:
        logs = sorted(logdir.glob("*/*.log"))[:3]
        size = sum(log.stat().st_size for log in logs)
        for depth in DEPTHS:
            seen: list[SegmentMetadata] = []
            reports = verify(stored, [partition_of()], depth, progress=seen.append)
            assert reports == [PartitionReport(partition_of(), 3, size, ())]
            assert sorted(s.start_offset for s in seen) == [0, 10, 20]

    @pytest.mark.parametrize("compression", [None, "zstd"])
    def test_from_listings_alone_nothing_else_is_asked(
        self, compression: Compression | None, logdir: Path, memory: ObjectStore
    ) -> None:
        push_all(source_of(logdir), SingleObject(memory, compression=compression))
        counter = RequestCounter()
        storage = SingleObject(ObjectStore(memory.url, observer=counter))
        assert check(storage, Depth.LISTING) == []
        assert set(counter.by_verb()) == {"list"}
        assert check(storage, Depth.INDEXES) == []
        assert counter.by_verb()["get_range"] <= 6

    def test_nothing_is_changed(self, stored: SingleObject) -> None:
        counter = RequestCounter()
        storage = SingleObject(ObjectStore(stored.store.url, observer=counter))
        for depth in DEPTHS:
            check(storage, depth)
        assert set(counter.by_verb()) <= {"list", "get", "get_range", "head"}


class TestHoles:
    def remove(self, stored: SingleObject, *starts: int) -> SingleObject:
        for one in stored.list_segments(partition_of()):
            if one.start_offset in starts:
                stored.delete_log_segment(one)
        return SingleObject(stored.store)

    @pytest.mark.parametrize("depth", DEPTHS)
    def test_one_is_named(self, depth: Depth, stored: SingleObject) -> None:
        (found,) = check(self.remove(stored, 10), depth)
        assert found.kind is ErrorKind.CORRUPT_DATA
        assert found.detail == (
            f"{stored.store.url}: t-0: no segment holds the offsets 10 to 19"
        )

    def test_each_is_named(self, logdir: Path, stored: SingleObject) -> None:
        (logdir / "t-0" / f"{40:020d}.log").touch()
        push_all(source_of(logdir), stored)
        found = check(self.remove(stored, 10), Depth.LISTING)
        assert len(found) == 1
        found = check(self.remove(stored, 0), Depth.LISTING)
        assert found == []

    def test_where_a_log_begins_there_is_none(self, stored: SingleObject) -> None:
        assert check(self.remove(stored, 0, 10), Depth.LISTING) == []

    def test_what_another_leader_wrote_fills_none(self, memory: ObjectStore) -> None:
        """A segment of a history that was given up holds none of the true offsets."""
        folder = f"t-0-{ID}"
        history = ((0, 0), (2, 5))
        files = segment(folder, 0, log_of(0, 5), epochs=((0, 0),))
        files |= segment(folder, 5, log_of(5, 15, epoch=1), epochs=((0, 0), (1, 5)))
        files |= segment(folder, 10, log_of(10, 5, epoch=2), epochs=history)
        fill(memory, files)
        for depth in DEPTHS:
            (found,) = check(KafkaLocal(memory), depth)
            assert "the offsets 5 to 9" in found.detail
        # The native layout does not list epochs: they are asked for.
        native = SingleObject(ObjectStore(f"{memory.url}/native"))
        source = KafkaLocal(memory)
        push_all(source, native)
        for depth in DEPTHS:
            (found,) = check(SingleObject(native.store), depth)
            assert "the offsets 5 to 9" in found.detail


class TestSeveralProblems:
    def test_all_are_told_and_the_rest_is_looked_at(self, stored: SingleObject) -> None:
        store = stored.store
        keys = [entry.key for entry in store.list()]
        store.put(keys[0], bytes(store.get(keys[0]))[:-1], overwrite=True)
        data = bytes(store.get(keys[2]))
        store.put(keys[2], flipped(data, len(data) - 1), overwrite=True)
        (report,) = verify(SingleObject(store), [partition_of()], Depth.EVERYTHING)
        assert report.segments == 2
        told = [(problem.kind, problem.detail) for problem in report.problems]
        assert [kind for kind, _ in told] == [ErrorKind.CORRUPT_OBJECT] * 2
        assert keys[0] in told[0][1]
        assert keys[2].split("/")[-1] in told[1][1]

    def test_strangers_objects_are_none(self, stored: SingleObject) -> None:
        for key in ("notes.txt", f"u/{ID}/0/notes.txt", f"t/{ID}/0/x.segment"):
            stored.store.put(key, b"x", overwrite=True)
        for depth in DEPTHS:
            reports = verify(stored, stored.list_partitions(), depth)
            assert {str(r.partition): r.segments for r in reports} == {
                "t-0": 3,
                "u-0": 0,
            }
            assert [r.problems for r in reports] == [(), ()]

    def test_a_store_that_is_not_reached_is_an_error(
        self, stored: SingleObject, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from tieredfs.objects.backends import Backend  # noqa: PLC0415 - changed

        def fail(*_: object, **__: object) -> bytes:
            raise ConnectionResetError

        monkeypatch.setattr(Backend, "get_range", fail)
        once = stored.with_policy(RequestPolicy(attempts=1))
        with pytest.raises(StorageUnavailableError):
            check(once, Depth.INDEXES)


class TestKafkasOwnLayouts:
    def files(self) -> dict[str, bytes]:
        return files_of(KAFKA / "two-partitions" / REMOTE)

    @pytest.mark.parametrize(
        ("suffix", "depth"),
        [
            (".index", Depth.INDEXES),
            (".timeindex", Depth.INDEXES),
            (".snapshot", Depth.INDEXES),
            (".leader_epoch_checkpoint", Depth.INDEXES),
            (".log", Depth.EVERYTHING),
        ],
    )
    def test_a_file_that_is_damaged_is_named(
        self, suffix: str, depth: Depth, memory: ObjectStore
    ) -> None:
        files = self.files()
        key = [k for k in files if k.endswith(suffix) and files[k]][1]
        files[key] = flipped(files[key], min(40, len(files[key]) - 1), 0x55)
        if suffix.endswith("index"):
            files[key] = b"\x55" * 37
        fill(memory, files)
        found = check(KafkaLocal(memory), depth)
        stem = key.split("/")[-1].removesuffix(suffix)
        assert any(stem in problem.detail for problem in found)

    def test_records_are_read_that_a_scan_of_offsets_leaves_compressed(
        self, tmp_path: Path
    ) -> None:
        garbage = encode_batch([WireRecord(0, 0)], codec="zstd", payload=b"no frame")
        write_log(tmp_path / "logs", {0: garbage, 1: b""})
        storage = source_of(tmp_path / "logs")
        topic = Tier(storage).topic(partition_of().topic)
        assert topic.scan(columns=["offset"]).to_table()["offset"].to_pylist() == [0]
        with pytest.raises(CorruptBatchError, match="invalid zstd data"):
            topic.scan().to_table()
        (found,) = check(storage, Depth.EVERYTHING)
        assert found.kind is ErrorKind.CORRUPT_BATCH

    def test_an_index_that_is_untrue_is_seen_beside_the_log(
        self, tmp_path: Path
    ) -> None:
        root = recorded("epochs", tmp_path)
        index = root / "epochs-0" / f"{0:020d}.index"
        index.write_bytes(flipped(index.read_bytes(), 7))  # a position
        storage = source_of(root)
        assert check(storage, Depth.INDEXES) == []
        (found,) = check(storage, Depth.EVERYTHING)
        assert found.kind is ErrorKind.CORRUPT_INDEX
        assert "OFFSET index" in found.detail


class TestWhatOnlyTheSegmentBeforeShows:
    def test_an_abort_that_was_dropped_is_seen_where_only_its_marker_lies(
        self, memory: ObjectStore
    ) -> None:
        """Its records lie in earlier segments: the producers before it tell of them."""
        fill(memory, files_of(KAFKA / "txn" / REMOTE))
        storage = KafkaLocal(memory)
        assert check(storage, Depth.EVERYTHING) == []
        seen = 0
        for key, index in files_of(KAFKA / "txn" / REMOTE).items():
            if key.endswith(".txnindex"):
                memory.put(key, index[34:], overwrite=True)
                (problem,) = check(storage, Depth.EVERYTHING)
                assert problem.kind is ErrorKind.CORRUPT_INDEX
                memory.put(key, index, overwrite=True)
                seen += 1
        assert seen

    def test_a_transaction_that_is_untruly_open_is_seen(
        self, memory: ObjectStore
    ) -> None:
        files = files_of(KAFKA / "txn" / REMOTE)
        fill(memory, files)
        key = sorted(key for key in files if key.endswith(".snapshot"))[3]
        stored = ProducerSnapshot.parse(files[key])
        first, *others = stored.producers
        moved = first._replace(
            transaction_first_offset=-1 if first.transaction_first_offset >= 0 else 1
        )
        wrong = ProducerSnapshot((moved, *others)).encode()
        memory.put(key, wrong, overwrite=True)
        found = check(KafkaLocal(memory), Depth.EVERYTHING)
        assert any("has a transaction open" in problem.detail for problem in found)

    def test_a_log_that_ends_early_is_seen_in_a_log_directory(
        self, logdir: Path
    ) -> None:
        log = logdir / "t-0" / f"{10:020d}.log"
        log.write_bytes(log_of(10, 5))
        (problem,) = check(source_of(logdir), Depth.EVERYTHING)
        assert "ends before offset 15, the segment at 19" in problem.detail

    def test_a_segment_that_is_removed_meanwhile_is_no_problem(
        self, stored: SingleObject
    ) -> None:
        partition = stored.list_partitions()[0]
        first = stored.list_segments(partition)[0]

        class Retained(SingleObject):
            def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
                if metadata.id == first.id:
                    self.delete_log_segment(metadata)
                return super().fetch_all_indexes(metadata)

        assert check(Retained(stored.store), Depth.INDEXES) == []


def test_internal_topics_are_looked_at_too(logdir: Path, memory: ObjectStore) -> None:
    write_log(logdir, {0: log_of(0), 10: b""}, partition="__x-0", topic_id=OTHER_ID)
    target = SingleObject(memory)
    source = source_of(logdir)
    push(source, target, source.list_partitions())
    (broken,) = [e.key for e in memory.list("__x/")]
    memory.put(broken, bytes(memory.get(broken))[:-1], overwrite=True)
    (problem,) = check(target, Depth.LISTING)
    assert problem.partition.topic == "__x"
