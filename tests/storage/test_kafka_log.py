import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from typing_extensions import override

from support.events import Events
from support.kafka_data import KAFKA, LOCAL, REMOTE
from support.stores import files_of, fill
from support.wire import WireRecord, encode_batch
from tieredfs import (
    CorruptBatchError,
    CorruptDataError,
    CorruptObjectError,
    IndexType,
    LogSegmentData,
    NotFoundError,
    ObjectStore,
    RemoteStorageManager,
    SegmentMetadata,
    StorageUnavailableError,
    Tier,
    TopicIdPartition,
    UnsupportedOperationError,
    Uuid,
    open_storage,
)
from tieredfs.log.partitions import select_partitions
from tieredfs.objects import ObjectInfo

EPOCHS = TopicIdPartition("epochs", 0, Uuid("WtKnnEasR2mbJ4pgwi2gDw"))
CLOSED, ACTIVE = (f"epochs-0/{start:020d}" for start in (400, 500))
HEX = "0123456789abcdef" * 2


def over(store: ObjectStore) -> RemoteStorageManager:
    return open_storage(store, "kafka-log")


@pytest.fixture
def epochs(memory: ObjectStore) -> ObjectStore:
    """A broker's copy of a partition, that can be changed."""
    fill(memory, files_of(KAFKA / "epochs" / LOCAL))
    return memory


def table(store: ObjectStore, name: str = "epochs") -> pa.Table:
    return Tier(over(store)).topic(name).scan().to_table()


def rows_of(known: SegmentMetadata) -> int:
    """Count the records up to a segment's end: the log begins at 0, without holes."""
    return 0 if known.end_offset is None else known.end_offset + 1


def append(store: ObjectStore, key: str, more: bytes) -> None:
    store.put(key, bytes(store.get(key)) + more, overwrite=True)


def cut(store: ObjectStore, key: str, size: int) -> None:
    store.put(key, bytes(store.get(key))[:size], overwrite=True)


def test_a_partition_is_listed_with_the_id_of_its_topic(epochs: ObjectStore) -> None:
    assert over(epochs).list_partitions() == [EPOCHS]


def test_a_folder_is_listed_twice_and_two_small_files_are_read(
    epochs: ObjectStore,
) -> None:
    events = Events()
    over(ObjectStore(epochs.url, observer=events)).list_segments(EPOCHS)
    assert [(event.verb, event.key) for event in events] == [
        ("list", "epochs-0/"),
        ("list", "epochs-0/"),
        ("get", "epochs-0/partition.metadata"),
        ("get", "log-start-offset-checkpoint"),
    ]


def test_a_topic_that_is_made_again_between_two_listings_is_not_found(
    epochs: ObjectStore,
) -> None:
    class MadeAgain(ObjectStore):
        listings = 0

        @override
        def list(
            self, prefix: str = "", *, start_after: str = "", delimiter: str = ""
        ) -> Iterator[ObjectInfo]:
            self.listings += 1
            if self.listings == 2:
                metadata = b"version: 0\ntopic_id: dao62lTOQsGBPyjJLrpQKw"
                self.put("epochs-0/partition.metadata", metadata, overwrite=True)
            return super().list(prefix, start_after=start_after, delimiter=delimiter)

    with pytest.raises(NotFoundError, match="recreated"):
        over(MadeAgain(epochs.url)).list_segments(EPOCHS)


def test_nothing_of_other_topics_is_asked_for_when_one_is_wanted(
    epochs: ObjectStore,
) -> None:
    for folder in ("epochs-other-0", "other-0"):
        epochs.copy("epochs-0/partition.metadata", f"{folder}/partition.metadata")
        epochs.copy(f"{CLOSED}.log", f"{folder}/{CLOSED[-20:]}.log")
    events = Events()
    tier = Tier(over(ObjectStore(epochs.url, observer=events)))
    assert tier.topic("epochs").topic_id == EPOCHS.topic_id
    keys = {event.key for event in events}
    assert keys == {"", "epochs-0/partition.metadata"}
    assert select_partitions(tier.storage, ["epochs"]) == [EPOCHS]
    assert {event.key for event in events} == keys


def test_before_topics_had_ids_it_is_unknown(epochs: ObjectStore) -> None:
    epochs.delete(["epochs-0/partition.metadata"])
    assert over(epochs).list_partitions() == [TopicIdPartition("epochs", 0)]
    assert table(epochs).num_rows == 600


@pytest.mark.parametrize(
    "content",
    [b"", b"version: 0\n", b"version: 0\ntopic_id: short", b"\xff" * 40, bytes(43)],
)
def test_a_partition_whose_topic_id_is_damaged_is_listed_and_not_taken_for_another(
    epochs: ObjectStore, content: bytes
) -> None:
    epochs.put("epochs-0/partition.metadata", content, overwrite=True)
    (partition,) = over(epochs).list_partitions()
    assert partition == TopicIdPartition("epochs", 0)
    with pytest.raises(CorruptObjectError, match=r"epochs-0/partition\.metadata"):
        over(epochs).list_segments(partition)


def test_a_damaged_topic_id_leaves_no_partition_out_of_its_topic(
    epochs: ObjectStore,
) -> None:
    for entry in list(epochs.list("epochs-0/")):
        epochs.copy(entry.key, entry.key.replace("epochs-0/", "epochs-1/"))
    epochs.put("epochs-1/partition.metadata", b"version: 0\n", overwrite=True)
    topic = Tier(over(epochs)).topic("epochs")
    assert topic.partitions == (0, 1)
    with pytest.raises(CorruptObjectError, match=r"epochs-1/partition\.metadata"):
        topic.scan()


def test_folders_that_the_broker_gave_up_are_skipped(epochs: ObjectStore) -> None:
    log = bytes(epochs.get(f"{CLOSED}.log"))
    for folder in (
        f"epochs-1.{HEX}-delete",
        f"epochs-1.{HEX}-future",
        f"epochs-1.{HEX}-stray",
        "epochs-1-delete",
        "epochs",
        "epochs-x",
        "epochs-99999999999",
        "epochs-00",
        "other-007",
        "..-0",
        ".-0",
        "-0",
        "a b-0",
        "remote-log-index-cache",
        "deeper/epochs-0",
    ):
        epochs.put(f"{folder}/{400:020d}.log", log, overwrite=True)
    epochs.put("file-0", b"no folder", overwrite=True)
    assert over(epochs).list_partitions() == [EPOCHS]


def test_a_file_of_an_offset_that_no_broker_has_is_no_segment(
    epochs: ObjectStore,
) -> None:
    for name in ("9" * 20, f"{(1 << 63) - 1:020d}"):
        epochs.put(f"epochs-0/{name}.log", b"", overwrite=True)
    starts = [s.start_offset for s in over(epochs).list_segments(EPOCHS)]
    assert starts == [0, 200, 400, 500]


def test_internal_topics_are_shown_when_they_are_named(epochs: ObjectStore) -> None:
    files = files_of(KAFKA / "epochs" / LOCAL / "epochs-0")
    fill(epochs, {f"__internal-3/{key}": content for key, content in files.items()})
    tier = Tier(over(epochs))
    assert tier.topics() == ["epochs"]
    assert tier.topic("__internal").partitions == (3,)
    assert table(epochs, "__internal").num_rows == 600


def test_each_segment_ends_where_the_next_begins(epochs: ObjectStore) -> None:
    found = over(epochs).list_segments(EPOCHS)
    assert [(s.start_offset, s.end_offset) for s in found] == [
        (0, 199),
        (200, 399),
        (400, 499),
        (500, None),
    ]
    assert all(s.version and s.size for s in found)
    assert len({s.id for s in found}) == 4
    assert over(epochs).list_segments(EPOCHS) == found
    assert over(epochs).list_segments(EPOCHS, 400) == found[2:]
    assert over(epochs).list_segments(EPOCHS, 10_000)[-1] == found[-1]


def test_a_rewritten_segment_has_another_version(epochs: ObjectStore) -> None:
    before = over(epochs).list_segments(EPOCHS)
    cut(epochs, f"{CLOSED}.log", 2619)
    after = over(epochs).list_segments(EPOCHS)
    assert [a.id for a in after] == [b.id for b in before]
    assert [a.version == b.version for a, b in zip(after, before, strict=True)] == [
        *(True, True, False, True)
    ]


def test_a_missing_partition_is_not_found(epochs: ObjectStore) -> None:
    with pytest.raises(NotFoundError, match="epochs-1"):
        over(epochs).list_segments(TopicIdPartition("epochs", 1))


def test_a_partition_without_a_log_has_no_segments(epochs: ObjectStore) -> None:
    made = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    epochs.put("new-0/partition.metadata", made, overwrite=True)
    (new,) = [p for p in over(epochs).list_partitions() if p.topic == "new"]
    assert over(epochs).list_segments(new) == []
    assert Tier(over(epochs)).topic("new").end_offsets() == {0: 0}


def test_what_is_described_is_what_was_tiered(epochs: ObjectStore) -> None:
    tiered = open_storage(ObjectStore(str(KAFKA / "epochs" / REMOTE)))
    partition = tiered.list_partitions()[0]
    theirs = [tiered.describe(s) for s in tiered.list_segments(partition)]
    mine = [over(epochs).describe(s) for s in over(epochs).list_segments(EPOCHS)]
    for one, other in zip(mine, theirs, strict=True):
        assert one.start_offset == other.start_offset
        assert one.end_offset == other.end_offset
        assert one.max_timestamp_ms == other.max_timestamp_ms
        assert one.leader_epochs == other.leader_epochs
        assert one.size == other.size


def test_indexes_are_those_that_the_broker_tiered(epochs: ObjectStore) -> None:
    tiered = open_storage(ObjectStore(str(KAFKA / "epochs" / REMOTE)))
    theirs = tiered.list_segments(tiered.list_partitions()[0])
    for one, other in zip(over(epochs).list_segments(EPOCHS), theirs, strict=True):
        mine = over(epochs).fetch_all_indexes(one)
        expected = dict(tiered.fetch_all_indexes(other))
        if one.end_offset is None:  # still written: not all is there yet
            assert IndexType.PRODUCER_SNAPSHOT not in mine
            assert len(mine[IndexType.OFFSET]) < 10_000  # the file is padded
            expected = {k: expected[k] for k in (IndexType.OFFSET,)}
        for kind, content in expected.items():
            assert mine[kind] == content, kind


class TestTheActiveSegment:
    def test_its_padded_indexes_are_read(self, epochs: ObjectStore) -> None:
        assert len(epochs.get(f"{ACTIVE}.index")) > 10_000
        assert table(epochs).num_rows == 600

    def test_a_torn_tail_is_left_out_wherever_it_is_cut(
        self, epochs: ObjectStore
    ) -> None:
        log = bytes(epochs.get(f"{ACTIVE}.log"))
        whole = over(epochs).describe(over(epochs).list_segments(EPOCHS)[-1])
        more = log[: 2619 // 2]  # half of the batch that the segment begins with
        for size in (1, 7, 8, 11, 12, 16, 17, 60, 61, 62, 500, len(more)):
            epochs.put(f"{ACTIVE}.log", log + more[:size], overwrite=True)
            storage = over(epochs)
            known = storage.describe(storage.list_segments(EPOCHS)[-1])
            assert (known.end_offset, known.size) == (whole.end_offset, whole.size)
            assert table(epochs).num_rows == 600

    @pytest.mark.parametrize("zeros", [1, 11, 12, 17, 61, 5000])
    def test_a_tail_of_zeros_is_left_out(self, epochs: ObjectStore, zeros: int) -> None:
        append(epochs, f"{ACTIVE}.log", bytes(zeros))
        assert table(epochs).num_rows == 600
        assert Tier(over(epochs)).topic("epochs").end_offsets() == {0: 600}

    def test_it_may_be_empty(self, epochs: ObjectStore) -> None:
        for suffix in ("log", "index", "timeindex"):
            cut(epochs, f"{ACTIVE}.{suffix}", 0)
        assert Tier(over(epochs)).topic("epochs").end_offsets() == {0: 500}
        assert table(epochs).num_rows == 500

    def test_it_may_be_preallocated(self, epochs: ObjectStore) -> None:
        epochs.put(f"{ACTIVE}.log", bytes(1 << 20), overwrite=True)
        for suffix in ("index", "timeindex"):
            epochs.put(f"{ACTIVE}.{suffix}", bytes(12_000), overwrite=True)
        assert table(epochs).num_rows == 500

    def test_a_torn_tail_before_preallocated_zeros_is_left_out(
        self, epochs: ObjectStore
    ) -> None:
        log = bytes(epochs.get(f"{ACTIVE}.log"))
        whole = over(epochs).describe(over(epochs).list_segments(EPOCHS)[-1])
        more = WireRecord(600, 0, b"k", b"v" * 300)
        for codec in ("none", "zstd"):
            batch = encode_batch([more], leader_epoch=5, codec=codec)
            for size in (1, 7, 8, 10, 11, 12, 16, 17, 21, 60, 61, 62, len(batch) - 2):
                content = (log + batch[:size]).ljust(1 << 20, b"\0")
                epochs.put(f"{ACTIVE}.log", content, overwrite=True)
                storage = over(epochs)
                known = storage.describe(storage.list_segments(EPOCHS)[-1])
                assert (known.end_offset, known.size) == (whole.end_offset, whole.size)
                assert table(epochs).num_rows == 600

    def test_a_preallocated_one_hides_no_damage_of_a_batch_before_others(
        self, epochs: ObjectStore
    ) -> None:
        log = bytes(epochs.get(f"{ACTIVE}.log"))
        # Of the second batch: length, magic, checksum, records.
        for at in (8, 9, 10, 11, 16, 17, 400):
            wrong = bytearray(log.ljust(1 << 20, b"\0"))
            wrong[2619 + at] ^= 1
            epochs.put(f"{ACTIVE}.log", wrong, overwrite=True)
            with pytest.raises(CorruptBatchError, match=r"0500.*position 2619"):
                table(epochs)

    def test_a_damaged_last_batch_that_ends_in_a_zero_is_taken_for_a_torn_one(
        self, epochs: ObjectStore
    ) -> None:
        log = bytes(epochs.get(f"{ACTIVE}.log"))
        last = bytearray(encode_batch([WireRecord(600, 0)], leader_epoch=5))
        assert last[-1] == 0
        last[-3] ^= 1
        content = (log + last).ljust(1 << 20, b"\0")
        epochs.put(f"{ACTIVE}.log", content, overwrite=True)
        assert table(epochs).num_rows == 600
        epochs.put(f"{ACTIVE}.log", log + last, overwrite=True)
        with pytest.raises(CorruptBatchError, match="CRC-32C does not match"):
            table(epochs)

    def test_a_preallocated_one_that_was_rolled_since_it_was_listed_has_changed(
        self, epochs: ObjectStore
    ) -> None:
        log = bytes(epochs.get(f"{ACTIVE}.log"))
        epochs.put(f"{ACTIVE}.log", log.ljust(1 << 20, b"\0"), overwrite=True)
        storage = over(epochs)
        listed = storage.list_segments(EPOCHS)[-1]
        epochs.put(f"{ACTIVE}.log", log, overwrite=True)
        epochs.put(f"epochs-0/{600:020d}.log", bytes(1 << 20), overwrite=True)
        with pytest.raises(StorageUnavailableError, match="read again") as raised:
            storage.describe(listed)
        assert raised.value.retryable
        assert table(epochs).num_rows == 600

    def test_a_wrong_byte_inside_it_is_corrupt(self, epochs: ObjectStore) -> None:
        log = bytearray(epochs.get(f"{ACTIVE}.log"))
        log[3000] ^= 1
        epochs.put(f"{ACTIVE}.log", log, overwrite=True)
        with pytest.raises(CorruptBatchError, match="0500"):
            table(epochs)

    @pytest.mark.parametrize("size", [0, 1, 2618, 2619, 2620, 2635, 4000, 5000])
    @pytest.mark.parametrize("allocated", [0, 1 << 20])
    def test_indexes_that_are_ahead_of_a_torn_log_are_cut_to_it(
        self, epochs: ObjectStore, size: int, allocated: int
    ) -> None:
        whole = table(epochs)
        content = bytes(epochs.get(f"{ACTIVE}.log"))[:size].ljust(allocated, b"\0")
        epochs.put(f"{ACTIVE}.log", content, overwrite=True)
        storage = over(epochs)
        known = storage.describe(storage.list_segments(EPOCHS)[-1])
        assert known.end_offset is not None
        assert known.size is not None
        assert known.size <= size
        topic = Tier(storage).topic("epochs")
        assert topic.end_offsets() == {0: known.end_offset + 1}
        assert table(epochs) == whole.slice(0, known.end_offset + 1)
        for start in range(490, known.end_offset + 1, 3):
            rows = topic.scan(start=start).to_table()
            assert rows == whole.slice(start, known.end_offset + 1 - start)
        latest = max(whole["timestamp"].cast(pa.int64()).to_pylist()[: rows_of(known)])
        assert known.max_timestamp_ms is not None
        assert known.max_timestamp_ms <= latest
        assert topic.offsets_for_times({0: latest + 1}) == {0: None}

    def test_indexes_that_are_ahead_of_a_log_of_zeros_are_cut_to_it(
        self, epochs: ObjectStore
    ) -> None:
        log = bytes(epochs.get(f"{ACTIVE}.log"))
        epochs.put(f"{ACTIVE}.log", log[:2619] + bytes(len(log) - 2619), overwrite=True)
        assert Tier(over(epochs)).topic("epochs").end_offsets() == {0: 512}
        assert table(epochs).num_rows == 512

    def test_a_batch_that_claims_what_lies_behind_it_is_not_taken_for_a_torn_one(
        self, epochs: ObjectStore
    ) -> None:
        log = bytearray(epochs.get(f"{ACTIVE}.log"))
        log[2619 + 9] ^= 1  # the second batch is 64 KiB longer than it was
        epochs.put(f"{ACTIVE}.log", log, overwrite=True)
        with pytest.raises(CorruptBatchError, match=r"0500.*position 2619"):
            table(epochs)

    @pytest.mark.parametrize("allocated", [0, 1 << 20])
    def test_nor_is_one_inside_which_the_offset_index_has_another(
        self, epochs: ObjectStore, allocated: int
    ) -> None:
        cut(epochs, f"{ACTIVE}.timeindex", 0)  # so that it is described from its start
        log = bytearray(epochs.get(f"{ACTIVE}.log").tobytes().ljust(allocated, b"\0"))
        log[2619 + 9] ^= 1
        epochs.put(f"{ACTIVE}.log", log, overwrite=True)
        storage = over(epochs)
        with pytest.raises(CorruptBatchError, match=r"position 2619.*index has one"):
            storage.describe(storage.list_segments(EPOCHS)[-1])

    def test_an_index_that_grew_since_the_log_was_listed_is_cut_to_it(
        self, epochs: ObjectStore
    ) -> None:
        log = bytes(epochs.get(f"{ACTIVE}.log"))
        cut(epochs, f"{ACTIVE}.log", 2619)
        storage = over(epochs)
        known = storage.describe(storage.list_segments(EPOCHS)[-1])
        epochs.put(f"{ACTIVE}.log", log, overwrite=True)
        found = storage.fetch_all_indexes(known)
        assert all(
            int.from_bytes(found[IndexType.OFFSET][at + 4 : at + 8], "big") < 2619
            for at in range(0, len(found[IndexType.OFFSET]), 8)
        )
        assert all(
            int.from_bytes(found[IndexType.TIMESTAMP][at + 8 : at + 12], "big") < 12
            for at in range(0, len(found[IndexType.TIMESTAMP]), 12)
        )

    def test_what_it_grew_since_it_was_listed_is_read_later(
        self, epochs: ObjectStore
    ) -> None:
        log = bytes(epochs.get(f"{ACTIVE}.log"))
        indexes = {
            s: bytes(epochs.get(f"{ACTIVE}.{s}")) for s in ("index", "timeindex")
        }
        cut(epochs, f"{ACTIVE}.log", 2619)
        for suffix in indexes:
            cut(epochs, f"{ACTIVE}.{suffix}", 0)
        topic = Tier(over(epochs)).topic("epochs")
        scan = topic.scan()
        assert topic.end_offsets() == {0: 512}
        fill(epochs, {f"{ACTIVE}.{s}": content for s, content in indexes.items()})
        epochs.put(f"{ACTIVE}.log", log, overwrite=True)
        assert scan.to_table().num_rows == 512
        assert topic.end_offsets() == {0: 600}
        assert topic.scan().to_table().num_rows == 600


class TestAClosedSegment:
    @pytest.mark.parametrize(
        "more", [b"\0", bytes(11), bytes(12), bytes(5000), b"x" * 7, b"x" * 400]
    )
    def test_a_tail_that_is_no_batch_is_corrupt(
        self, epochs: ObjectStore, more: bytes
    ) -> None:
        append(epochs, f"{CLOSED}.log", more)
        with pytest.raises(CorruptDataError, match="0400"):
            table(epochs)

    @pytest.mark.parametrize("missing", [1, 500, 5000])
    def test_a_log_that_was_cut_is_corrupt(
        self, epochs: ObjectStore, missing: int
    ) -> None:
        cut(epochs, f"{CLOSED}.log", epochs.head(f"{CLOSED}.log").size or 0)
        size = epochs.head(f"{CLOSED}.log").size
        assert size is not None
        cut(epochs, f"{CLOSED}.log", size - missing)
        with pytest.raises(CorruptDataError, match="0400"):
            table(epochs)

    def test_a_batch_of_another_segment_is_corrupt(self, epochs: ObjectStore) -> None:
        append(epochs, f"{CLOSED}.log", bytes(epochs.get(f"{ACTIVE}.log"))[:2619])
        with pytest.raises(CorruptBatchError, match=r"0400.*outside the segment, 400"):
            table(epochs)

    @pytest.mark.parametrize("start", [None, 400, 405, 420, 499])
    def test_a_log_cut_between_two_batches_is_corrupt(
        self, epochs: ObjectStore, start: int | None
    ) -> None:
        log = bytes(epochs.get(f"{CLOSED}.log"))
        first = 12 + int.from_bytes(log[8:12], "big")
        for suffix in ("index", "timeindex"):
            cut(epochs, f"{CLOSED}.{suffix}", 0)
        cut(epochs, f"{CLOSED}.log", first)
        scan = Tier(over(epochs)).topic("epochs").scan(start=start)
        with pytest.raises(CorruptBatchError, match=r"0400.*ends before.*499"):
            scan.to_table()

    def test_a_log_whose_end_the_cleaner_removed_is_whole(
        self, epochs: ObjectStore
    ) -> None:
        log = bytes(epochs.get(f"{CLOSED}.log"))
        first = 12 + int.from_bytes(log[8:12], "big")
        largest = log[35:43]  # of the batch that is left: the cleaner's only entry
        cut(epochs, f"{CLOSED}.index", 0)
        epochs.put(f"{CLOSED}.timeindex", largest + bytes(4), overwrite=True)
        cut(epochs, f"{CLOSED}.log", first)
        epochs.put("cleaner-offset-checkpoint", b"0\n1\nepochs 0 500\n", overwrite=True)
        found = table(epochs)["offset"].to_pylist()
        assert found[399:401] == [399, 400]
        assert 499 not in found
        assert found[-1] == 599

    def test_gaps_that_the_cleaner_left_are_no_error(self) -> None:
        store = ObjectStore(str(KAFKA / "compacted" / LOCAL))
        found = table(store, "compacted")
        assert found.num_rows == 353
        assert found["offset"].to_pylist()[0] > 0


def test_a_log_that_shrank_since_it_was_listed_is_corrupt(epochs: ObjectStore) -> None:
    storage = over(epochs)
    closed = storage.list_segments(EPOCHS)[2]
    cut(epochs, f"{CLOSED}.log", 100)
    with pytest.raises(CorruptObjectError, match=r"0400\.log"):
        storage.fetch_log_segment(closed)


def test_it_can_neither_copy_nor_delete(epochs: ObjectStore) -> None:
    storage = over(epochs)
    closed = storage.list_segments(EPOCHS)[2]
    with pytest.raises(UnsupportedOperationError, match="read only"):
        storage.copy_log_segment(closed, LogSegmentData(b"", {}))
    with pytest.raises(UnsupportedOperationError, match="read only"):
        storage.delete_log_segment(closed)
    assert epochs.head(f"{CLOSED}.log").size


def test_it_pickles(tmp_path: Path) -> None:
    store = ObjectStore(str(tmp_path))
    fill(store, files_of(KAFKA / "epochs" / LOCAL))
    again = pickle.loads(pickle.dumps(over(store)))  # noqa: S301 - our own
    assert again.list_segments(EPOCHS) == over(store).list_segments(EPOCHS)
