from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from typing_extensions import override

from servers import Bucket
from support.golden import header_of, log_batches
from support.kafka_data import KAFKA, REMOTE
from support.segments import records, segment
from support.stores import KINDS, fill, make_place, open_store
from support.wire import encode_batch
from tieredfs import (
    Capability,
    CorruptBatchError,
    IndexType,
    InvalidArgumentError,
    LogSegmentData,
    NotFoundError,
    ObjectStore,
    RemoteStorageManager,
    RequestCounter,
    SegmentId,
    SegmentMetadata,
    StorageUnavailableError,
    TieredFSError,
    TopicIdPartition,
    UnsupportedOperationError,
    Uuid,
    open_storage,
    open_tier,
)
from tieredfs.format.index.builder import IndexBuilder
from tieredfs.format.index.producer_snapshot import ProducerSnapshot

TOPIC_ID = Uuid("dao62lTOQsGBPyjJLrpQKw")
PARTITION = TopicIdPartition("t", 0, TOPIC_ID)
FOLDER = f"t-0-{TOPIC_ID}/"
SUFFIXES = ["index", "timeindex", "snapshot", "leader_epoch_checkpoint"]


def over(store: ObjectStore) -> RemoteStorageManager:
    return open_storage(store, "kafka-local")


def described(start: int, count: int = 5) -> SegmentMetadata:
    made = SegmentId.from_bytes((start + 1).to_bytes(16, "big"))
    return SegmentMetadata(PARTITION, made, start, start + count - 1)


def log_of(start: int, count: int = 5) -> bytes:
    return encode_batch(records(start, count))


def indexes_of(start: int) -> dict[IndexType, bytes]:
    """Give the indexes that Kafka has of every segment, empty ones."""
    files = segment("x", start, log_of(start))
    kinds = {
        "index": IndexType.OFFSET,
        "timeindex": IndexType.TIMESTAMP,
        "snapshot": IndexType.PRODUCER_SNAPSHOT,
        "leader_epoch_checkpoint": IndexType.LEADER_EPOCH,
    }
    return {
        kinds[name.rpartition(".")[2]]: content
        for name, content in files.items()
        if not name.endswith(".log")
    }


def keys(store: ObjectStore) -> list[str]:
    return [entry.key for entry in store.list()]


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    """An empty place on each backend."""
    return make_place(request.param, request, tmp_path)


@pytest.mark.parametrize("topic", ["txn", "epochs"])
def test_what_a_broker_tiered_is_written_as_the_broker_wrote_it(
    memory: ObjectStore, topic: str
) -> None:
    source = over(ObjectStore(str(KAFKA / topic / REMOTE)))
    target = over(memory)
    for partition in source.list_partitions():
        for listed in source.list_segments(partition):
            found = source.fetch_all_indexes(listed)
            data = LogSegmentData(
                source.fetch_log_segment(listed),
                {kind: bytes(found[kind]) for kind in found},
            )
            assert target.copy_log_segment(source.describe(listed), data) == b""
    written = {key: bytes(memory.get(key)) for key in keys(memory)}
    root = KAFKA / topic / REMOTE
    assert written == {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }
    assert open_tier(memory.url).topics() == open_tier(str(root)).topics()


def test_what_was_written_is_listed_described_and_read(place: Bucket) -> None:
    store = open_store(place)
    for start in (5, 0):
        data = LogSegmentData(log_of(start), {})
        over(store).copy_log_segment(described(start), data)
    storage = over(store)
    assert storage.list_partitions() == [PARTITION]
    found = [storage.describe(s) for s in storage.list_segments(PARTITION)]
    assert [(s.start_offset, s.end_offset) for s in found] == [(0, 4), (5, 9)]
    assert [s.max_timestamp_ms for s in found] == [1_700_000_000_004] * 2
    for one in found:
        assert storage.fetch_log_segment(one) == log_of(one.start_offset)
    tier = open_tier(place.url, storage_options=place.storage_options)
    assert tier.topic("t").end_offsets() == {0: 10}
    assert tier.topic("t").read(0, 3)["offset"].to_pylist() == [*range(3, 10)]


@pytest.mark.parametrize("as_file", [False, True])
def test_a_log_may_be_a_file(
    memory: ObjectStore, tmp_path: Path, as_file: bool
) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(log_of(0))
    log = path if as_file else memoryview(path.read_bytes())
    storage = over(memory)
    storage.copy_log_segment(described(0), LogSegmentData(log, {}))
    (listed,) = storage.list_segments(PARTITION)
    assert storage.fetch_log_segment(listed) == log_of(0)


class TestMissingIndexes:
    def test_they_are_made_from_the_log(self, memory: ObjectStore) -> None:
        log = b"".join(
            encode_batch(
                records(n, 1, value="v" * 3000),
                leader_epoch=n // 4,
                producer_id=7,
                producer_epoch=0,
                base_sequence=n,
            )
            for n in range(9)
        )
        storage = over(memory)
        storage.copy_log_segment(described(0, 9), LogSegmentData(log, {}))
        (listed,) = storage.list_segments(PARTITION)
        found = storage.fetch_all_indexes(listed)
        builder = IndexBuilder(0)
        for batch in log_batches(log):
            builder.add(header_of(batch))
        assert found[IndexType.OFFSET] == builder.offset_index() != b""
        assert found[IndexType.TIMESTAMP] == builder.time_index() != b""
        assert found[IndexType.LEADER_EPOCH] == b"0\n3\n0 0\n1 4\n2 8\n"
        snapshot = ProducerSnapshot.parse(found[IndexType.PRODUCER_SNAPSHOT])
        assert [(p.producer_id, p.last_offset) for p in snapshot.producers] == [(7, 8)]
        assert IndexType.TRANSACTION not in found
        assert storage.describe(listed).end_offset == 8

    @pytest.mark.parametrize("missing", indexes_of(0))
    def test_those_that_were_given_stay_as_they_are(
        self, memory: ObjectStore, missing: IndexType
    ) -> None:
        given = indexes_of(0)
        del given[missing]
        given[IndexType.TRANSACTION] = b""
        storage = over(memory)
        storage.copy_log_segment(described(0), LogSegmentData(log_of(0), given))
        (listed,) = storage.list_segments(PARTITION)
        found = dict(storage.fetch_all_indexes(listed))
        assert found.keys() == set(IndexType)
        del found[missing]
        assert found == given


class KilledError(Exception):
    """The process ends here."""


class MortalStore(ObjectStore):
    """A store whose user is killed before the so manyth put."""

    left = 0

    @override
    def put(
        self, key: str, data: bytes | bytearray | memoryview, *, overwrite: bool
    ) -> None:
        if not self.left:
            raise KilledError(key)
        self.left -= 1
        super().put(key, data, overwrite=overwrite)


@pytest.mark.parametrize("puts", range(5))
def test_a_writer_that_is_killed_leaves_nothing_listed(
    memory: ObjectStore, puts: int
) -> None:
    mortal = MortalStore(memory.url)
    mortal.left = puts
    data = LogSegmentData(log_of(0), indexes_of(0))
    with pytest.raises(KilledError):
        over(mortal).copy_log_segment(described(0), data)
    left = keys(memory)
    assert len(left) == puts
    assert not any(key.endswith(".log") for key in left)
    with suppress(NotFoundError):  # of what has no file there is no partition
        assert over(memory).list_segments(PARTITION) == []
    over(memory).copy_log_segment(described(0), data)
    (listed,) = over(memory).list_segments(PARTITION)
    assert over(memory).fetch_log_segment(listed) == log_of(0)


def test_copying_again_changes_nothing(memory: ObjectStore) -> None:
    data = LogSegmentData(log_of(0), indexes_of(0))
    storage = over(memory)
    storage.copy_log_segment(described(0), data)
    before = {key: bytes(memory.get(key)) for key in keys(memory)}
    storage.copy_log_segment(described(0), data)
    over(memory).copy_log_segment(described(0), data)
    assert {key: bytes(memory.get(key)) for key in keys(memory)} == before
    assert len(storage.list_segments(PARTITION)) == 1


@pytest.mark.parametrize(
    ("log", "error"),
    [
        (b"\0", CorruptBatchError),
        (log_of(0)[:-1], CorruptBatchError),
        (log_of(0)[:-1] + b"?", CorruptBatchError),
        (log_of(1), CorruptBatchError),
        (Path("/nowhere/0.log"), NotFoundError),
    ],
)
def test_a_log_that_is_not_the_segment_s_is_refused(
    memory: ObjectStore, log: bytes | Path, error: type[TieredFSError]
) -> None:
    with pytest.raises(error, match="t-0/0000"):
        over(memory).copy_log_segment(described(0), LogSegmentData(log, {}))
    assert keys(memory) == []


def test_a_segment_needs_its_end(memory: ObjectStore) -> None:
    metadata = replace(described(0), end_offset=None)
    with pytest.raises(InvalidArgumentError, match=r"t-0/.*end offset"):
        over(memory).copy_log_segment(metadata, LogSegmentData(log_of(0), {}))
    assert keys(memory) == []


def test_what_is_deleted_is_gone_and_a_second_time_is_success(place: Bucket) -> None:
    store = open_store(place)
    storage = over(store)
    given = {**indexes_of(0), IndexType.TRANSACTION: b""}
    storage.copy_log_segment(described(0), LogSegmentData(log_of(0), given))
    storage.copy_log_segment(described(5), LogSegmentData(log_of(5), {}))
    for _ in range(2):
        storage.delete_log_segment(described(0))
        assert [s.start_offset for s in storage.list_segments(PARTITION)] == [5]
        assert len(keys(store)) == 5
    with pytest.raises(NotFoundError, match="000"):
        storage.fetch_index(described(0), IndexType.OFFSET)


class StuckStore(ObjectStore):
    """A store that deletes one object and then fails."""

    @override
    def delete(self, keys: Iterator[str] | list[str]) -> None:  # type: ignore[override] # as it is called
        first, *others = keys
        super().delete([first])
        if others:
            raise StorageUnavailableError("down")


def test_a_delete_that_is_interrupted_leaves_nothing_listed(
    memory: ObjectStore,
) -> None:
    data = LogSegmentData(log_of(0), indexes_of(0))
    over(memory).copy_log_segment(described(0), data)
    with pytest.raises(StorageUnavailableError):
        over(StuckStore(memory.url)).delete_log_segment(described(0))
    assert keys(memory)
    assert over(memory).list_segments(PARTITION) == []
    over(memory).delete_log_segment(described(0))
    assert keys(memory) == []


def test_it_is_written_beside_what_is_in_the_folder_s_parent(
    memory: ObjectStore,
) -> None:
    files = segment(f"{REMOTE}/t-0-{TOPIC_ID}", 0, log_of(0))
    fill(memory, files)
    over(memory).copy_log_segment(described(5), LogSegmentData(log_of(5), {}))
    assert [s.start_offset for s in over(memory).list_segments(PARTITION)] == [0, 5]
    assert all(key.startswith(f"{REMOTE}/{FOLDER}") for key in keys(memory))


def test_what_a_broker_begins_to_write_is_seen_by_a_storage_that_saw_nothing(
    memory: ObjectStore,
) -> None:
    storage = over(memory)
    assert storage.list_partitions() == []
    broker = over(ObjectStore(f"{memory.url}/{REMOTE}"))
    broker.copy_log_segment(described(0), LogSegmentData(log_of(0), {}))
    assert storage.list_partitions() == [PARTITION]
    (listed,) = storage.list_segments(PARTITION)
    assert storage.fetch_log_segment(listed) == log_of(0)


def test_a_segment_is_named_without_a_request(memory: ObjectStore) -> None:
    counter = RequestCounter()
    storage = over(ObjectStore(memory.url, observer=counter))
    assert storage.name_of(described(0)).endswith(f"{FOLDER}{0:020d}-{'A' * 21}Q")
    assert counter.requests == 0


def test_it_says_that_it_can_be_written(memory: ObjectStore) -> None:
    assert over(memory).capabilities == {Capability.WRITE, Capability.RANGE_READ}


@pytest.mark.parametrize(
    "log",
    [
        log_of(0, 4),
        encode_batch(records(1, 4)),
        encode_batch(records(0, 2)) + log_of(3, 2),
    ],
    ids=["end", "beginning", "middle"],
)
def test_a_compacted_log_is_refused_and_leaves_nothing(
    log: bytes, place: Bucket
) -> None:
    store = open_store(place)
    with pytest.raises(UnsupportedOperationError, match="compacted"):
        over(store).copy_log_segment(described(0), LogSegmentData(log, {}))
    assert keys(store) == []
