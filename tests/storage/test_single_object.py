import os
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import google_crc32c
import hypothesis.strategies as st
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given, settings
from typing_extensions import override

from support.kafka_data import KAFKA, REMOTE
from support.segments import empty_snapshot, records
from support.wire import WireRecord, encode_batch
from tieredfs import (
    AlreadyExistsError,
    Capability,
    CorruptBatchError,
    CorruptDataError,
    CorruptIndexError,
    CorruptObjectError,
    IndexType,
    InvalidArgumentError,
    LogSegmentData,
    NotFoundError,
    ObjectInfo,
    ObjectStore,
    RemoteStorageManager,
    RequestCounter,
    RequestPolicy,
    SegmentId,
    SegmentMetadata,
    StorageUnavailableError,
    TieredFSError,
    TopicIdPartition,
    UnsupportedFormatError,
    Uuid,
    installed_plugins,
    open_storage,
    open_tier,
)
from tieredfs.format.compression.codec import Codec
from tieredfs.format.compression.compress import compress
from tieredfs.format.segment.key import SegmentFlag, SegmentKey
from tieredfs.format.segment.native_keys import NativeKeys
from tieredfs.format.segment.tail import Chunks, LogPart, SegmentFacts, build_tail
from tieredfs.storage.segment_log.inspection import inspect_segment
from tieredfs.storage.segment_log.source import log_in_memory
from tieredfs.storage.segment_log.stream import read_batches

TOPIC_ID = Uuid("dao62lTOQsGBPyjJLrpQKw")
PARTITION = TopicIdPartition("t", 0, TOPIC_ID)
FOLDER = f"t/{TOPIC_ID}/0/"
EPOCHS = b"0\n1\n0 0\n"
ABORT = bytes(2) + b"".join(n.to_bytes(8, "big") for n in (7, 0, 4, 5))
INDEXES = {
    IndexType.OFFSET: b"",
    IndexType.TIMESTAMP: (1_700_000_000_004).to_bytes(8, "big") + bytes([0, 0, 0, 4]),
    IndexType.PRODUCER_SNAPSHOT: empty_snapshot(),
    IndexType.LEADER_EPOCH: EPOCHS,
}
COMPRESSIONS = (None, "zstd")
KEYS = NativeKeys()

both = pytest.mark.parametrize("compression", COMPRESSIONS)


def over(store: ObjectStore, compression: str | None = None) -> RemoteStorageManager:
    return open_storage(store, "single-object", {"compression": compression})


def segment_id(number: int) -> SegmentId:
    return SegmentId.from_bytes(number.to_bytes(16, "big"))


def described(
    start: int, count: int = 5, partition: TopicIdPartition = PARTITION, number: int = 0
) -> SegmentMetadata:
    """Say of a segment what a broker says when it hands it over."""
    made = segment_id(number or start + 1)
    return SegmentMetadata(partition, made, start, start + count - 1)


def log_of(start: int, count: int = 5) -> bytes:
    return encode_batch(records(start, count))


def copied(
    storage: RemoteStorageManager,
    start: int = 0,
    partition: TopicIdPartition = PARTITION,
    indexes: Mapping[IndexType, bytes] = INDEXES,
) -> SegmentMetadata:
    """Copy a segment of five records; return it as a broker keeps it."""
    metadata = described(start, partition=partition)
    data = LogSegmentData(log_of(start), indexes)
    custom = storage.copy_log_segment(metadata, data)
    return replace(metadata, custom_metadata=custom)


def key_of(segment: SegmentMetadata) -> str:
    partition, stem = segment.partition, segment.custom_metadata.decode()
    return f"{partition.topic}/{TOPIC_ID}/{partition.partition}/{stem}.segment"


def keys(store: ObjectStore) -> list[str]:
    return [entry.key for entry in store.list()]


@contextmanager
def scratch() -> Iterator[ObjectStore]:
    """Give one example a store of its own."""
    root = f"/{uuid4().hex}"
    yield ObjectStore(f"memory:/{root}")
    if MemoryFileSystem().exists(root):
        MemoryFileSystem().rm(root, recursive=True)


@st.composite
def segments(draw: st.DrawFn) -> tuple[SegmentMetadata, bytes, bytes]:
    """Draw a segment, its log and its checkpoint."""
    start = offset = draw(st.integers(0, 1 << 40))
    log = b""
    epoch = draw(st.sampled_from([-1, 0]))
    for _ in range(draw(st.integers(0, 4))):
        offset += draw(st.sampled_from([0, 0, 3]))
        count = draw(st.integers(1, 4))
        stamp = draw(st.integers(-(1 << 62), 1 << 62))
        values = draw(st.text(max_size=30))
        batch = records(offset, count, timestamp=stamp, value=values)
        log += encode_batch(batch, leader_epoch=draw(st.sampled_from([-1, epoch])))
        offset += count
    end = max(offset - 1, start) + draw(st.sampled_from([0, 0, 9]))
    number = draw(st.integers(1, (1 << 128) - 1))
    partition = TopicIdPartition(
        draw(st.sampled_from(["t", "con", "a.", "x" * 249])),
        draw(st.integers(0, (1 << 31) - 1)),
        draw(st.sampled_from([TOPIC_ID, Uuid("A" * 22)])),
    )
    checkpoints = [EPOCHS, b"0\n2\n0 0\n7 999999999999999\n"] + [b""] * (epoch < 0)
    epochs = draw(st.sampled_from(checkpoints))
    return SegmentMetadata(partition, segment_id(number), start, end), log, epochs


def indexes_of(metadata: SegmentMetadata, log: bytes) -> Mapping[IndexType, bytes]:
    """Make the indexes of a log, with an entry of each batch."""
    batches = read_batches(log_in_memory(log, "log"))
    measured = replace(metadata, size=len(log))
    return inspect_segment(batches, measured, {}, interval_bytes=0).rebuilt


@given(
    segments(),
    st.sets(st.sampled_from(list(IndexType))),
    st.sampled_from(COMPRESSIONS),
    st.data(),
)
def test_what_was_copied_is_fetched(
    segment: tuple[SegmentMetadata, bytes, bytes],
    kinds: set[IndexType],
    compression: str | None,
    data: st.DataObject,
) -> None:
    metadata, log, epochs = segment
    made = {**indexes_of(metadata, log), IndexType.LEADER_EPOCH: epochs}
    indexes = {kind: made[kind] for kind in kinds & made.keys()}
    with scratch() as store:
        given_ = LogSegmentData(log, indexes)
        custom = over(store, compression).copy_log_segment(metadata, given_)
        assert len(custom) == 126
        storage = over(store)  # one that knows nothing of it
        assert storage.list_partitions() == [metadata.partition]
        (listed,) = storage.list_segments(metadata.partition)
        assert listed.custom_metadata == custom
        for one in (listed, replace(metadata, custom_metadata=custom), metadata):
            known = storage.describe(one)
            assert (known.id, known.size) == (metadata.id, len(log))
            assert known.start_offset == metadata.start_offset
            assert known.end_offset == metadata.end_offset
            fresh = over(store)
            assert fresh.fetch_log_segment(one) == log
            found = fresh.fetch_all_indexes(one)
            assert dict(found) == indexes
            assert b"".join(fresh.stream_log(known)) == log
            start = data.draw(st.integers(0, len(log)))
            end = data.draw(st.integers(start, len(log)))
            for layout in (b"", found.layout):
                fresh = over(store)
                piece = fresh.fetch_log_segment(one, start, end, layout=layout)
                assert piece == log[start:end]
                assert piece.readonly


def test_real_segments_come_back_byte_for_byte(memory: ObjectStore) -> None:
    source = open_storage(ObjectStore(str(KAFKA / "txn" / REMOTE)))
    (partition,) = source.list_partitions()
    storage = over(memory, "zstd")
    for listed in source.list_segments(partition):
        segment = source.describe(listed)
        indexes = source.fetch_all_indexes(segment)
        plain = {kind: bytes(indexes[kind]) for kind in indexes}
        log = source.fetch_log_segment(segment)
        custom = storage.copy_log_segment(segment, LogSegmentData(log, plain))
        copy = replace(segment, custom_metadata=custom)
        assert storage.fetch_log_segment(copy) == log
        assert dict(storage.fetch_all_indexes(copy)) == plain
    found = storage.list_segments(partition)
    assert len(found) == len(source.list_segments(partition))
    for one, other in zip(found, source.list_segments(partition), strict=True):
        mine, theirs = storage.describe(one), source.describe(other)
        assert mine == replace(theirs, custom_metadata=mine.custom_metadata)


@both
def test_a_log_may_be_a_file(
    memory: ObjectStore, tmp_path: Path, compression: str | None
) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(log_of(0))
    storage = over(memory, compression)
    custom = storage.copy_log_segment(described(0), LogSegmentData(path, INDEXES))
    other = over(memory, compression)
    data = LogSegmentData(memoryview(log_of(0)), INDEXES)
    assert other.copy_log_segment(described(0), data) == custom


@both
def test_a_log_of_many_chunks_comes_back(
    memory: ObjectStore, compression: str | None
) -> None:
    """It is larger than what is put together in memory as well."""
    value = os.urandom(1 << 20).hex()
    log = b"".join(
        encode_batch(records(n, 1, value=f"{n}{value}"), codec="none")
        for n in range(17)
    )
    assert len(log) > 33 << 20
    storage = over(memory, compression)
    metadata = described(0, 17)
    custom = storage.copy_log_segment(metadata, LogSegmentData(log, {}))
    metadata = replace(metadata, custom_metadata=custom, size=len(log))
    assert storage.fetch_log_segment(metadata) == log
    edge = 4 << 20
    for start, end in ((edge - 5, edge + 5), (edge, 3 * edge), (0, edge + 1)):
        assert storage.fetch_log_segment(metadata, start, end) == log[start:end]
    assert b"".join(storage.stream_log(metadata)) == log


def chunked(
    store: ObjectStore, log: bytes, size: int, **wrong: object
) -> SegmentMetadata:
    """Store a segment as another writer may: in chunks of another size."""
    cut = [log[at : at + size] for at in range(0, len(log), size)]
    stored = [compress(Codec.ZSTD, piece) for piece in cut]
    told = {
        "original_size": size,
        "codec": "zstd",
        "lengths": tuple(map(len, stored)),
        **wrong,
    }
    whole = b"".join(stored)
    part = LogPart(len(whole), len(log), google_crc32c.value(whole), Chunks(**told))  # type: ignore[arg-type] # wrong on purpose
    facts = SegmentFacts(
        "t", TOPIC_ID, 0, segment_id(1), 0, 4, 5, 0, 1_700_000_000_004, -1, ()
    )
    flags = SegmentFlag.TRANSFORMED
    tail = build_tail(facts, part, {}, flags)
    key = SegmentKey(
        4, 0, 1_700_000_000_004, 0, len(whole), len(tail), flags, segment_id(1)
    )
    store.put(f"{FOLDER}{KEYS.stem(key)}.segment", whole + tail, overwrite=True)
    (listed,) = over(store).list_segments(PARTITION)
    return listed


@settings(max_examples=30)
@given(st.integers(1, 200), st.data())
def test_chunks_of_any_size_are_read(size: int, data: st.DataObject) -> None:
    log = log_of(0)
    with scratch() as store:
        segment = chunked(store, log, size)
        start = data.draw(st.integers(0, len(log)))
        end = data.draw(st.integers(start, len(log)))
        assert over(store).fetch_log_segment(segment, start, end) == log[start:end]
        assert b"".join(over(store).stream_log(segment)) == log


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"codec": "lz4"}, UnsupportedFormatError),
        ({"original_size": 0}, CorruptObjectError),
        ({"original_size": 60}, CorruptObjectError),
        ({"original_size": 1 << 40}, CorruptObjectError),
        ({"lengths": ()}, CorruptObjectError),
        ({"lengths": (1, 2, 3)}, CorruptObjectError),
    ],
)
def test_chunks_that_do_not_add_up_are_refused(
    memory: ObjectStore, wrong: dict[str, object], error: type[TieredFSError]
) -> None:
    segment = chunked(memory, log_of(0), 50, **wrong)
    for read in (
        lambda: over(memory).fetch_log_segment(segment),
        lambda: list(over(memory).stream_log(segment)),
    ):
        with pytest.raises(error, match=segment.id):
            read()


class TestDamage:
    @both
    def test_every_flip_is_noticed_by_reading_everything(
        self, memory: ObjectStore, compression: str | None
    ) -> None:
        marker = WireRecord(4, 1_700_000_000_004, key=bytes(4), value=bytes(6))
        log = encode_batch(records(0, 4), attributes=0x10, producer_id=7)
        log += encode_batch([marker], attributes=0x30, producer_id=7)
        indexes = {**INDEXES, IndexType.TRANSACTION: ABORT}
        storage = over(memory, compression)
        custom = storage.copy_log_segment(described(0), LogSegmentData(log, indexes))
        segment = replace(described(0), custom_metadata=custom)
        whole = bytes(memory.get(key_of(segment)))
        key = KEYS.parse_stem(segment.custom_metadata.decode())
        assert key is not None
        for at in range(len(whole)):
            wrong = bytearray(whole)
            wrong[at] ^= 1 << at % 8
            memory.put(key_of(segment), wrong, overwrite=True)
            storage = over(memory)
            if at >= key.log_length:
                with pytest.raises(CorruptDataError, match=segment.id):
                    storage.fetch_all_indexes(segment)
            else:
                assert dict(storage.fetch_all_indexes(segment)) == indexes
                with pytest.raises(CorruptDataError, match=segment.id):
                    list(storage.stream_log(segment))

    @both
    def test_every_other_size_is_noticed_by_listing(
        self, memory: ObjectStore, compression: str | None
    ) -> None:
        storage = over(memory, compression)
        copied(storage, 5)
        segment = copied(storage)
        whole = bytes(memory.get(key_of(segment)))
        for wrong in (*(whole[:cut] for cut in range(len(whole))), whole + b"\0"):
            memory.put(key_of(segment), wrong, overwrite=True)
            with pytest.raises(
                CorruptObjectError, match=f"{segment.id}.*its key states"
            ):
                storage.list_segments(PARTITION)
        with pytest.raises(CorruptObjectError, match=segment.id):
            storage.seek(PARTITION, 0)
        first, second = storage.survey(PARTITION)
        assert isinstance(first, CorruptObjectError)
        assert isinstance(second, SegmentMetadata)

    @both
    @pytest.mark.parametrize("start", [0, 3])
    @pytest.mark.parametrize("cut", [0, 7])
    def test_an_object_of_another_partition_gives_no_record(
        self, memory: ObjectStore, compression: str | None, start: int, cut: int
    ) -> None:
        segment = copied(over(memory, compression))
        size = len(log_of(0))
        for partition in (
            TopicIdPartition("t", 1, TOPIC_ID),
            TopicIdPartition("u", 0, TOPIC_ID),
        ):
            moved = replace(segment, partition=partition)
            memory.copy(key_of(segment), key_of(moved))
            (listed,) = over(memory).list_segments(partition)
            with pytest.raises(CorruptObjectError, match="another segment"):
                over(memory).fetch_log_segment(listed, start, size - cut)
            with pytest.raises(CorruptObjectError, match="another segment"):
                over(memory).fetch_all_indexes(listed)
            with pytest.raises(CorruptObjectError, match="another segment"):
                list(over(memory).stream_log(listed))
            tier = open_tier(memory.url, plugin="single-object")
            with pytest.raises(CorruptObjectError, match="another segment"):
                list(tier.topic(partition.topic).scan([partition.partition]))

    def test_an_object_of_another_segment_gives_no_record(
        self, memory: ObjectStore
    ) -> None:
        segment = copied(over(memory))
        whole = bytes(memory.get(key_of(segment)))
        memory.delete([key_of(segment)])
        for name, value in (
            (str(segment.id), str(segment_id(9))),
            ("4-00000000000000000000-", "5-00000000000000000000-"),
            ("4-00000000000000000000-", "4-00000000000000000001-"),
            ("1700000000004", "1700000000005"),
            ("-0000-", "-0001-"),
            ("-0000-", "-0002-"),
        ):
            stem = segment.custom_metadata.decode().replace(name, value, 1)
            assert stem != segment.custom_metadata.decode()
            memory.put(f"{FOLDER}{stem}.segment", whole, overwrite=True)
            (other,) = over(memory).list_segments(PARTITION)
            with pytest.raises(CorruptObjectError, match=stem):
                over(memory).fetch_all_indexes(other)
            with pytest.raises(CorruptObjectError, match=stem):
                over(memory).fetch_log_segment(other)
            memory.delete([f"{FOLDER}{stem}.segment"])

    @pytest.mark.parametrize("before", COMPRESSIONS)
    def test_a_layout_of_the_segment_as_it_was_copied_before_changes_nothing(
        self, before: str | None, memory: ObjectStore
    ) -> None:
        segment = copied(over(memory, before))
        layout = over(memory).fetch_all_indexes(segment).layout
        over(memory).delete_log_segment(segment)
        again = copied(over(memory, "zstd" if before is None else None))
        found = over(memory).fetch_log_segment(again, 0, 9, layout=layout)
        assert found == log_of(0)[:9]

    def test_a_layout_of_another_segment_is_refused(self, memory: ObjectStore) -> None:
        for compression in COMPRESSIONS:
            storage = over(memory, compression)
            one, other = copied(storage, 0), copied(storage, 5)
            layout = storage.fetch_all_indexes(other).layout
            with pytest.raises(CorruptObjectError, match=one.id):
                over(memory).fetch_log_segment(one, 0, 10, layout=layout)
            memory.delete(keys(memory))

    def test_an_index_that_is_damaged_does_not_keep_the_log_from_being_read(
        self, memory: ObjectStore
    ) -> None:
        segment = copied(over(memory))
        whole = bytearray(memory.get(key_of(segment)))
        whole[len(log_of(0))] ^= 1
        memory.put(key_of(segment), whole, overwrite=True)
        with pytest.raises(CorruptIndexError, match="TIMESTAMP"):
            over(memory).fetch_all_indexes(segment)
        assert over(memory).fetch_log_segment(segment) == log_of(0)
        assert over(memory).fetch_log_segment(segment, 1, 9) == log_of(0)[1:9]


class TestListing:
    def test_strangers_are_skipped(self, memory: ObjectStore) -> None:
        storage = over(memory)
        stem = copied(storage).custom_metadata.decode()
        before = storage.list_segments(PARTITION)
        for name in (
            "notes.txt",
            stem,
            f"{stem}.segment.tmp",
            f"{stem}.SEGMENT",
            f"0{stem}.segment",
            f"{stem[1:]}.segment",
            f"{stem}x.segment",
            ".segment",
            f"deeper/{stem}.segment",
            stem.replace("-0000000000-", "--000000000-") + ".segment",
            stem.replace("-0000-", "-000A-") + ".segment",
        ):
            memory.put(f"{FOLDER}{name}", b"x" * 900, overwrite=True)
        for folder in (
            "notes",
            f"t/{TOPIC_ID}/01",
            f"t/{TOPIC_ID}/-1",
            f"t/{TOPIC_ID}/2147483648",
            f"t/{TOPIC_ID}x/0",
            f"t/{'_' * 22}/0",
            f"a b/{TOPIC_ID}/0",
            f"con/{TOPIC_ID}/0",
            f"t=/{TOPIC_ID}/0",
            f"a./{TOPIC_ID}/0",
            f"@tieredfs/{TOPIC_ID}/0",
        ):
            memory.put(f"{folder}/{stem}.segment", b"x", overwrite=True)
        assert over(memory).list_partitions() == [PARTITION]
        assert over(memory).list_segments(PARTITION) == before
        assert over(memory).seek(PARTITION, 0) == before

    def test_strangers_folders_cost_one_request(self, memory: ObjectStore) -> None:
        for number in range(20):
            memory.put(f"a b/{number}/x/y", b"", overwrite=True)
            memory.put(f"t/{number}/x/y", b"", overwrite=True)
        copied(over(memory))
        counter = RequestCounter()
        watched = ObjectStore(memory.url, observer=counter)
        assert over(watched).list_partitions() == [PARTITION]
        assert counter.by_verb() == {"list": 3}

    def test_one_topic_costs_two_listings_however_many_there_are(
        self, memory: ObjectStore
    ) -> None:
        for number in range(20):
            memory.put(f"t{number}/{'A' * 22}/0/x", b"", overwrite=True)
        copied(over(memory))
        counter = RequestCounter()
        watched = ObjectStore(memory.url, observer=counter)
        assert over(watched).list_partitions(PARTITION.topic) == [PARTITION]
        assert counter.by_verb() == {"list": 2}
        assert over(watched).list_partitions("nosuch") == []
        assert over(watched).list_partitions("../nosuch") == []

    def test_a_flag_of_a_newer_release_is_refused_by_name(
        self, memory: ObjectStore
    ) -> None:
        storage = over(memory)
        segment = copied(storage)
        newer = key_of(segment).replace("-0000-", "-0004-")
        memory.copy(key_of(segment), newer)
        for read in (storage.list_segments, storage.seek):
            with pytest.raises(UnsupportedFormatError, match=f"{FOLDER}.*0004"):
                read(PARTITION, 0)
        kinds = [type(found) for found in storage.survey(PARTITION)]
        assert kinds == [SegmentMetadata, UnsupportedFormatError]

    def test_two_ids_of_one_topic_are_two_logs(self, memory: ObjectStore) -> None:
        storage = over(memory)
        old, new = PARTITION, TopicIdPartition("t", 0, Uuid("A" * 22))
        copied(storage, 0, old)
        copied(storage, 5, new)
        assert storage.list_partitions() == sorted([old, new])
        assert [s.start_offset for s in storage.list_segments(old)] == [0]
        assert [s.start_offset for s in storage.list_segments(new)] == [5]

    def test_segments_are_sorted_by_start(self, memory: ObjectStore) -> None:
        storage = over(memory)
        for start, count in ((5, 5), (0, 20), (0, 5), (10, 5)):
            metadata = described(start, count, number=start * 100 + count)
            data = LogSegmentData(log_of(start, count), {})
            storage.copy_log_segment(metadata, data)
        found = [
            (s.start_offset, s.end_offset) for s in storage.list_segments(PARTITION)
        ]
        assert found == [(0, 4), (0, 19), (5, 9), (10, 14)]

    @pytest.mark.parametrize("offset", range(16))
    def test_a_listing_from_an_offset_on_begins_with_its_segment(
        self, memory: ObjectStore, offset: int
    ) -> None:
        storage = over(memory)
        for start in (0, 5, 10):
            copied(storage, start)
        expected = [start for start in (0, 5, 10) if start + 4 >= offset]
        found = storage.list_segments(PARTITION, offset)
        assert [s.start_offset for s in found] == expected
        if expected:
            assert storage.seek(PARTITION, offset) == found
        else:
            with pytest.raises(NotFoundError, match=r"t-0"):
                storage.seek(PARTITION, offset)

    def test_what_is_not_there_is_not_found(self, memory: ObjectStore) -> None:
        storage = over(memory)
        copied(storage)
        for partition in (
            TopicIdPartition("t", 1, TOPIC_ID),
            TopicIdPartition("t", 0),
            TopicIdPartition("u", 0, TOPIC_ID),
        ):
            for offset in (0, 3):
                with pytest.raises(NotFoundError, match=str(partition)):
                    storage.list_segments(partition, offset)
                with pytest.raises(NotFoundError, match=str(partition)):
                    storage.seek(partition, offset)

    def test_a_partition_of_strangers_objects_is_empty(
        self, memory: ObjectStore
    ) -> None:
        memory.put(f"{FOLDER}notes.txt", b"", overwrite=True)
        storage = over(memory)
        assert storage.list_partitions() == [PARTITION]
        assert storage.list_segments(PARTITION) == []
        assert storage.list_segments(PARTITION, 7) == []

    def test_new_segments_are_seen_by_the_next_listing(
        self, memory: ObjectStore
    ) -> None:
        storage, other = over(memory), over(memory)
        copied(storage)
        assert len(other.list_segments(PARTITION)) == 1
        copied(storage, 5)
        assert len(other.list_segments(PARTITION)) == 2


class TestCopying:
    def test_it_is_one_put(self, memory: ObjectStore) -> None:
        counter = RequestCounter()
        copied(over(ObjectStore(memory.url, observer=counter)))
        assert counter.by_verb() == {"put": 1}

    def test_a_second_time_puts_nothing(self, memory: ObjectStore) -> None:
        counter = RequestCounter()
        storage = over(ObjectStore(memory.url, observer=counter))
        first = copied(storage)
        assert copied(storage, indexes={}) == first
        assert counter.by_verb()["put"] == 1
        assert len(keys(memory)) == 1

    def test_what_was_listed_is_not_put(self, memory: ObjectStore) -> None:
        first = copied(over(memory))
        counter = RequestCounter()
        storage = over(ObjectStore(memory.url, observer=counter))
        storage.list_segments(PARTITION)
        assert copied(storage, indexes={}) == first
        assert "put" not in counter.by_verb()

    def test_what_another_process_deleted_is_put_again(
        self, memory: ObjectStore
    ) -> None:
        storage = over(memory)
        first = copied(storage)
        over(memory).delete_log_segment(first)
        assert keys(memory) == []
        assert copied(storage) == first
        assert keys(memory) == [key_of(first)]

    def test_two_objects_of_one_segment_are_listed_as_one(
        self, memory: ObjectStore
    ) -> None:
        one = copied(over(memory))
        other = copied(over(memory), indexes={})
        assert one.custom_metadata != other.custom_metadata
        storage = over(memory)
        (listed,) = storage.list_segments(PARTITION)
        assert listed.custom_metadata == min(one.custom_metadata, other.custom_metadata)
        for segment in (one, other, listed, described(0)):
            assert storage.fetch_log_segment(segment) == log_of(0)

    def test_another_attempt_has_an_object_of_its_own(
        self, memory: ObjectStore
    ) -> None:
        storage = over(memory)
        for number in (1, 2):
            metadata = described(0, number=number)
            storage.copy_log_segment(metadata, LogSegmentData(log_of(0), {}))
        found = over(memory).list_segments(PARTITION)
        assert {s.id for s in found} == {segment_id(1), segment_id(2)}

    @pytest.mark.parametrize("end", [None, -1])
    def test_a_segment_needs_an_end_and_an_offset(
        self, memory: ObjectStore, end: int | None
    ) -> None:
        metadata = SegmentMetadata(PARTITION, segment_id(1), 0, end)
        for store in (over(memory).copy_log_segment, over(memory).append_log_segment):
            with pytest.raises(InvalidArgumentError, match=r"t-0/.*no end offset"):
                store(metadata, LogSegmentData(b"", {}))
        assert keys(memory) == []

    @pytest.mark.parametrize(
        ("log", "error"),
        [
            (b"\0", CorruptBatchError),
            (log_of(0)[:-1], CorruptBatchError),
            (log_of(0) + b"\0", CorruptBatchError),
            (log_of(0)[:-1] + b"?", CorruptBatchError),
            (log_of(1), CorruptBatchError),
            (log_of(0) + log_of(0), CorruptBatchError),
            (Path("/nowhere/0.log"), NotFoundError),
        ],
    )
    def test_a_log_that_is_not_the_segment_s_is_refused(
        self, memory: ObjectStore, log: bytes | Path, error: type[TieredFSError]
    ) -> None:
        with pytest.raises(error, match="t-0/0000"):
            over(memory).copy_log_segment(described(0), LogSegmentData(log, INDEXES))
        assert keys(memory) == []

    def test_a_malformed_checkpoint_is_refused(self, memory: ObjectStore) -> None:
        indexes = {**INDEXES, IndexType.LEADER_EPOCH: b"x"}
        with pytest.raises(CorruptIndexError, match="t-0/0000"):
            copied(over(memory), indexes=indexes)
        assert keys(memory) == []

    @pytest.mark.parametrize("stamp", [-(1 << 63), -5, -1, 0, (1 << 63) - 5])
    def test_the_largest_timestamp_is_that_of_the_log(
        self, memory: ObjectStore, stamp: int
    ) -> None:
        log = encode_batch(records(0, 5, timestamp=stamp))
        storage = over(memory)
        storage.copy_log_segment(described(0), LogSegmentData(log, {}))
        (listed,) = over(memory).list_segments(PARTITION)
        assert listed.max_timestamp_ms == stamp + 4
        assert storage.describe(listed).max_timestamp_ms == stamp + 4

    def test_a_log_without_a_checkpoint_tells_its_epochs(
        self, memory: ObjectStore
    ) -> None:
        log = b"".join(
            encode_batch(records(n, 1), leader_epoch=epoch)
            for n, epoch in enumerate([-1, 2, 2, 5, -1])
        )
        storage = over(memory)
        storage.copy_log_segment(described(0), LogSegmentData(log, {}))
        (listed,) = storage.list_segments(PARTITION)
        assert storage.describe(listed).leader_epochs == ((2, 1), (5, 3))

    def test_epochs_behind_the_segment_are_not_its_own(
        self, memory: ObjectStore
    ) -> None:
        storage = over(memory)
        epochs = b"0\n3\n0 0\n1 4\n2 5\n"
        segment = copied(storage, indexes={IndexType.LEADER_EPOCH: epochs})
        assert storage.describe(segment).leader_epochs == ((0, 0), (1, 4))
        assert storage.fetch_index(segment, IndexType.LEADER_EPOCH) == epochs


class TestDeleting:
    def test_what_is_deleted_is_gone_and_a_second_time_is_success(
        self, memory: ObjectStore
    ) -> None:
        storage = over(memory)
        gone, kept = copied(storage, 0), copied(storage, 5)
        for _ in range(2):
            storage.delete_log_segment(gone)
            over(memory).delete_log_segment(gone)
            over(memory).delete_log_segment(described(0))
            assert keys(memory) == [key_of(kept)]
        with pytest.raises(NotFoundError, match=gone.id):
            storage.fetch_log_segment(gone)
        with pytest.raises(NotFoundError, match=gone.id):
            over(memory).fetch_all_indexes(described(0))

    @pytest.mark.parametrize("told", ["listed", "copied", "without an end"])
    def test_every_object_of_the_segment_is_deleted(
        self, memory: ObjectStore, told: str
    ) -> None:
        copied(over(memory))
        copied(over(memory), indexes={})
        storage = over(memory)
        segment = described(0)
        if told == "listed":
            (segment,) = storage.list_segments(PARTITION)
        elif told == "without an end":
            segment = replace(segment, end_offset=None)
        storage.delete_log_segment(segment)
        assert keys(memory) == []

    def test_what_two_processes_copied_with_other_settings_is_deleted_by_either_key(
        self, memory: ObjectStore
    ) -> None:
        for chosen in range(2):
            first, second = copied(over(memory)), copied(over(memory, "zstd"))
            assert len(keys(memory)) == 2
            over(memory).delete_log_segment((first, second)[chosen])
            assert keys(memory) == []

    def test_a_damaged_object_of_the_segment_goes_and_other_segments_stay(
        self, memory: ObjectStore
    ) -> None:
        gone, kept = copied(over(memory)), copied(over(memory), 5)
        longer = replace(described(0), end_offset=5)
        log = log_of(0) + encode_batch(records(5, 1))
        custom = over(memory).copy_log_segment(longer, LogSegmentData(log, {}))
        copied(over(memory), indexes={})
        (other,) = set(keys(memory)) - {
            key_of(s) for s in (gone, kept, replace(longer, custom_metadata=custom))
        }
        memory.put(other, b"cut", overwrite=True)
        over(memory).delete_log_segment(gone)
        found = over(memory).list_segments(PARTITION)
        assert [(s.start_offset, s.end_offset) for s in found] == [(0, 5), (5, 9)]

    def test_of_a_partition_that_is_not_there_it_is_success(
        self, memory: ObjectStore
    ) -> None:
        over(memory).delete_log_segment(described(0))
        assert keys(memory) == []

    def test_it_can_be_copied_again(self, memory: ObjectStore) -> None:
        storage = over(memory)
        first = copied(storage)
        storage.delete_log_segment(first)
        assert copied(storage) == first
        assert storage.fetch_log_segment(first) == log_of(0)


class DyingStore(ObjectStore):
    """Dies when it is about to make what was put aside a segment."""

    @override
    def copy(self, source: str, target: str) -> None:
        raise StorageUnavailableError("killed")


class TestAppending:
    def test_the_second_of_two_writers_is_told_and_stores_nothing(
        self, memory: ObjectStore
    ) -> None:
        first = described(0, number=1)
        custom = over(memory).append_log_segment(
            first, LogSegmentData(log_of(0), INDEXES)
        )
        before = keys(memory)
        with pytest.raises(AlreadyExistsError, match="t-0: offset 0"):
            over(memory).append_log_segment(
                described(0, 3, number=2), LogSegmentData(log_of(0, 3), {})
            )
        assert keys(memory) == before
        (listed,) = over(memory).list_segments(PARTITION)
        assert (listed.id, listed.custom_metadata) == (first.id, custom)
        assert over(memory).fetch_log_segment(listed) == log_of(0)

    def test_whoever_finds_a_claim_of_a_dead_writer_completes_it(
        self, memory: ObjectStore
    ) -> None:
        dead = over(DyingStore(memory.url))
        data = LogSegmentData(log_of(0), INDEXES)
        with pytest.raises(StorageUnavailableError):
            dead.append_log_segment(described(0, number=1), data)
        assert over(memory).list_partitions() == []
        with pytest.raises(AlreadyExistsError):
            over(memory).append_log_segment(described(0, number=2), data)
        (listed,) = over(memory).list_segments(PARTITION)
        assert listed.id == segment_id(1)
        assert over(memory).fetch_log_segment(listed) == log_of(0)
        assert [key for key in keys(memory) if "aside" in key] == []

    def test_what_the_layout_keeps_for_itself_is_recognised(
        self, memory: ObjectStore
    ) -> None:
        over(memory).append_log_segment(described(0), LogSegmentData(log_of(0), {}))
        assert type(open_storage(memory)) is type(over(memory))
        assert over(memory).list_partitions() == [PARTITION]


class CaselessStore(ObjectStore):
    """A disk that does not tell capitals from small letters, as far as listings go."""

    @override
    def list(
        self, prefix: str = "", *, start_after: str = "", delimiter: str = ""
    ) -> Iterator[ObjectInfo]:
        asked, slash, rest = prefix.partition("/")
        for entry in super().list("", delimiter="/"):
            folder = entry.key.rstrip("/")
            if slash and folder.casefold() == asked.casefold():
                found = super().list(f"{folder}/{rest}", delimiter=delimiter)
                for inside in found:
                    yield replace(inside, key=asked + inside.key[len(folder) :])
            elif not slash:
                yield entry


class TestNames:
    def test_a_topic_that_the_disk_takes_for_another_is_refused(
        self, tmp_path: Path
    ) -> None:
        storage = over(CaselessStore(str(tmp_path)))
        copied(storage, 0, TopicIdPartition("Orders", 0, TOPIC_ID))
        copied(storage, 5, TopicIdPartition("Orders", 0, TOPIC_ID))
        before = sorted(tmp_path.rglob("*"))
        twin = TopicIdPartition("oRders", 0, TOPIC_ID)
        with pytest.raises(AlreadyExistsError, match="'oRders' from 'Orders'"):
            copied(storage, 0, twin)
        with pytest.raises(AlreadyExistsError, match="'oRders' from 'Orders'"):
            storage.append_log_segment(
                described(0, partition=twin), LogSegmentData(log_of(0), {})
            )
        assert sorted(tmp_path.rglob("*")) == before

    def test_a_topic_that_got_no_folder_is_looked_for_again(
        self, tmp_path: Path
    ) -> None:
        storage = over(CaselessStore(str(tmp_path)))
        mine, twin = (TopicIdPartition(n, 0, TOPIC_ID) for n in ("orders", "Orders"))
        with pytest.raises(CorruptBatchError):
            storage.copy_log_segment(
                described(0, partition=mine), LogSegmentData(b"?", {})
            )
        copied(over(CaselessStore(str(tmp_path))), 0, twin)
        with pytest.raises(AlreadyExistsError, match="'orders' from 'Orders'"):
            copied(storage, 0, mine)

    def test_where_the_real_disk_can_tell_them_apart_both_are_there(
        self, tmp_path: Path
    ) -> None:
        storage = over(ObjectStore(str(tmp_path)))
        topics = [TopicIdPartition(name, 0, TOPIC_ID) for name in ("Orders", "orders")]
        copied(storage, 0, topics[0])
        if (tmp_path / "orders").exists():  # on this disk it is the other one
            with pytest.raises(AlreadyExistsError, match="'orders' from 'Orders'"):
                copied(storage, 0, topics[1])
            return
        copied(storage, 0, topics[1])
        assert storage.list_partitions() == topics

    def test_a_name_that_a_disk_cannot_have_is_marked(self, tmp_path: Path) -> None:
        storage = over(ObjectStore(str(tmp_path)))
        topics = [TopicIdPartition(n, 0, TOPIC_ID) for n in ("a.", "con", "orders")]
        for topic in topics:
            copied(storage, 0, topic)
        assert {p.name for p in tmp_path.iterdir()} == {"a.=", "con=", "orders"}
        assert storage.list_partitions() == topics
        assert type(open_storage(ObjectStore(str(tmp_path)))) is type(storage)

    @pytest.mark.parametrize("name", ["a.", "con", "orders"])
    def test_a_topic_is_found_by_its_name_and_not_by_its_folder_s(
        self, memory: ObjectStore, name: str
    ) -> None:
        partition = TopicIdPartition(name, 0, TOPIC_ID)
        storage = over(memory)
        copied(storage, 0, partition)
        assert storage.list_partitions(name) == [partition]
        assert storage.list_partitions(f"{name}=") == []


class TestPlugin:
    def test_it_is_registered_and_recognised(self, memory: ObjectStore) -> None:
        assert "single-object" in {plugin.name for plugin in installed_plugins()}
        copied(over(memory))
        assert type(open_storage(memory)).__name__ == "SingleObject"
        memory.put("notes.txt", b"", overwrite=True)
        assert type(open_storage(memory)).__name__ == "SingleObject"

    @pytest.mark.parametrize("suffix", ["", ".segment.tmp", ".log"])
    def test_other_keys_are_not_its_own(self, suffix: str) -> None:
        with scratch() as store:
            segment = copied(over(store))
            kind = type(over(store))
            key = key_of(segment)
            stem = key.removesuffix(".segment")
            newer = stem.replace("-0000-", "-0004-")
            assert kind.recognises([key, f"{newer}.segment"]) == 1
            assert kind.recognises([stem + suffix, newer + suffix]) == 0
            assert kind.recognises([f"x/{key}", key.partition("/")[2]]) == 0
            assert kind.recognises([]) == 0

    def test_its_capabilities_are_told(self, memory: ObjectStore) -> None:
        assert over(memory).capabilities == {
            Capability.WRITE,
            Capability.RANGE_READ,
            Capability.ATOMIC_COPY,
            Capability.SINGLE_REQUEST_INDEXES,
            Capability.PLAN_FROM_LISTING,
        }

    @pytest.mark.parametrize("compression", ["gzip", "", 0, [], True])
    def test_another_compression_is_refused(
        self, memory: ObjectStore, compression: object
    ) -> None:
        with pytest.raises(InvalidArgumentError, match="'zstd'"):
            open_storage(memory, "single-object", {"compression": compression})

    def test_another_option_is_refused_with_those_there_are(
        self, memory: ObjectStore
    ) -> None:
        with pytest.raises(InvalidArgumentError, match="compression"):
            open_storage(memory, "single-object", {"colour": "red"})

    @both
    def test_it_pickles_and_takes_another_policy(
        self, memory: ObjectStore, compression: str | None
    ) -> None:
        storage = over(memory, compression)
        segment = copied(storage)
        again = pickle.loads(pickle.dumps(storage))  # noqa: S301 - our own
        hasty = storage.with_policy(RequestPolicy(attempts=1))
        assert hasty.store.policy.attempts == 1
        assert storage.store.policy.attempts == 5
        for one in (again, hasty):
            assert one.list_segments(PARTITION) == storage.list_segments(PARTITION)
            assert one.fetch_log_segment(segment) == log_of(0)
            # What it writes it writes in the same way.
            custom = copied(one, 5).custom_metadata
            assert (b"-0002-" in custom) == (compression is not None)
            one.delete_log_segment(described(5))

    def test_its_repr_and_pickle_tell_no_secret_of_the_url(self) -> None:
        store = ObjectStore("s3://user:hunter2@bucket/x", {"secret": "hunter2"})
        assert "hunter2" not in repr(over(store))

    def test_metadata_of_another_layout_are_refused(self, memory: ObjectStore) -> None:
        segment = copied(over(memory))
        for custom in (b"x", b"\xff", segment.custom_metadata[:-1]):
            wrong = replace(segment, custom_metadata=custom)
            with pytest.raises(InvalidArgumentError, match="custom metadata"):
                over(memory).fetch_log_segment(wrong)
        with pytest.raises(InvalidArgumentError, match="custom metadata"):
            over(memory).fetch_all_indexes(replace(segment, id=segment_id(9)))

    def test_a_range_must_lie_in_the_log(self, memory: ObjectStore) -> None:
        for compression in COMPRESSIONS:
            segment = copied(over(memory, compression))
            storage = over(memory)
            size = len(log_of(0))
            assert storage.fetch_log_segment(segment, size) == b""
            assert storage.fetch_log_segment(segment, 5, 5) == b""
            with pytest.raises(CorruptObjectError, match=segment.id):
                storage.fetch_log_segment(segment, 0, size + 1)
            for start, end in ((-1, 5), (6, 5)):
                with pytest.raises(InvalidArgumentError, match="range"):
                    storage.fetch_log_segment(segment, start, end)
            memory.delete(keys(memory))

    def test_an_index_that_is_not_there_is_not_found(self, memory: ObjectStore) -> None:
        segment = copied(over(memory))
        with pytest.raises(NotFoundError, match="TRANSACTION"):
            over(memory).fetch_index(segment, IndexType.TRANSACTION)
        assert over(memory).fetch_index(segment, IndexType.OFFSET) == b""
        wanted = [IndexType.TIMESTAMP, IndexType.TRANSACTION]
        assert list(over(memory).fetch_indexes(segment, wanted)) == [
            IndexType.TIMESTAMP
        ]
