import json
import pickle

import pytest

from support.kafka_data import KAFKA, REMOTE, broker_segments
from support.segments import empty_snapshot, records, segment
from support.stores import files_of, fill
from support.wire import WireRecord, encode_batch
from tieredfs import (
    CorruptBatchError,
    CorruptDataError,
    CorruptIndexError,
    CorruptObjectError,
    IndexType,
    NotFoundError,
    ObjectStore,
    RemoteStorageManager,
    RequestCounter,
    RequestPolicy,
    SegmentMetadata,
    TopicIdPartition,
    Uuid,
    open_storage,
)

ID = "dao62lTOQsGBPyjJLrpQKw"
FOLDER = f"t-0-{ID}"
TOPICS = ["plain", "txn", "two-partitions", "leader-changes"]
SUFFIXES = ["log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint"]


def real(topic: str) -> RemoteStorageManager:
    return open_storage(ObjectStore(str(KAFKA / topic / REMOTE)), "kafka-local")


def over(store: ObjectStore) -> RemoteStorageManager:
    return open_storage(store, "kafka-local")


def made(store: ObjectStore) -> TopicIdPartition:
    """Fill a store with two segments; return their partition."""
    for start in (0, 5):
        log = encode_batch(records(start, 5))
        fill(store, segment(FOLDER, start, log))
    return TopicIdPartition("t", 0, Uuid(ID))


def test_partitions_are_listed_with_their_topic_s_id() -> None:
    topic_id = Uuid("CDxhvTApQE-yxYKJ1OC41A")
    assert real("two-partitions").list_partitions() == [
        TopicIdPartition("two-partitions", number, topic_id) for number in range(3)
    ]


def test_segments_are_those_that_the_broker_finished() -> None:
    storage = real("plain")
    (partition,) = storage.list_partitions()
    found = [
        (s.start_offset, str(s.id), s.size) for s in storage.list_segments(partition)
    ]
    assert found == [
        (told["startOffset"], told["segmentId"], told["segmentSizeInBytes"])
        for told in broker_segments("plain")
    ]


def test_a_description_is_what_the_broker_recorded() -> None:
    storage = real("plain")
    (partition,) = storage.list_partitions()
    for segment_, told in zip(
        storage.list_segments(partition), broker_segments("plain"), strict=True
    ):
        known = storage.describe(segment_)
        assert known.end_offset == told["endOffset"]
        assert known.max_timestamp_ms == told["maxTimestampMs"]
        assert known.size == told["segmentSizeInBytes"]
        assert _within(known) == {
            int(epoch): start for epoch, start in told["segmentLeaderEpochs"].items()
        }


def _within(known: SegmentMetadata) -> dict[int, int]:
    """Return the epochs as the broker records them: those of the segment alone."""
    entries = known.leader_epochs or ()
    clipped = {e.epoch: max(e.start_offset, known.start_offset) for e in entries}
    ends = [e.start_offset for e in entries[1:]] + [1 << 62]
    return {
        entry.epoch: clipped[entry.epoch]
        for entry, end in zip(entries, ends, strict=True)
        if end > known.start_offset
    }


@pytest.mark.parametrize("topic", TOPICS)
def test_a_description_is_what_kafka_reads_from_the_log(topic: str) -> None:
    storage = real(topic)
    told = 0
    for partition in storage.list_partitions():
        for segment_ in storage.list_segments(partition):
            known = storage.describe(segment_)
            folder = f"{partition}-{partition.topic_id}"
            name = f"{str(segment_).partition('/')[2]}.log.batches.jsonl"
            lines = KAFKA / topic / "expected" / REMOTE / folder / name
            if not lines.exists():
                continue  # left out to keep the data small
            told += 1
            batches = [json.loads(line) for line in lines.read_text().splitlines()]
            assert known.end_offset == batches[-1]["lastOffset"]
            assert known.max_timestamp_ms == max(b["maxTimestamp"] for b in batches)
            assert known.size == batches[-1]["position"] + batches[-1]["size"]
            epochs: dict[int, int] = {}
            for batch in batches:
                epochs.setdefault(batch["leaderEpoch"], batch["baseOffset"])
            assert _within(known) == epochs
            assert storage.describe(known) == known
    assert told


def test_a_segment_is_listed_when_all_its_files_are_there(memory: ObjectStore) -> None:
    partition = made(memory)
    whole = files_of_store(memory)
    assert [s.start_offset for s in over(memory).list_segments(partition)] == [0, 5]
    for suffix in SUFFIXES:
        (gone,) = [k for k in whole if f"/{5:020d}" in k and k.endswith(f".{suffix}")]
        memory.delete([gone])
        assert [s.start_offset for s in over(memory).list_segments(partition)] == [0]
        memory.put(gone, whole[gone], overwrite=True)


def files_of_store(store: ObjectStore) -> dict[str, bytes]:
    return {entry.key: bytes(store.get(entry.key)) for entry in store.list()}


def test_new_segments_are_seen_by_the_next_listing(memory: ObjectStore) -> None:
    partition = made(memory)
    storage = over(memory)
    assert len(storage.list_segments(partition)) == 2
    fill(memory, segment(FOLDER, 10, encode_batch(records(10, 5))))
    assert len(storage.list_segments(partition)) == 3
    fill(memory, segment(f"u-3-{ID}", 0, encode_batch(records(0, 5))))
    assert [str(p) for p in storage.list_partitions()] == ["t-0", "u-3"]


@pytest.mark.parametrize("min_offset", [0, 4, 5, 7, 9])
def test_no_segment_that_may_hold_the_offset_is_left_out(
    memory: ObjectStore, min_offset: int
) -> None:
    partition = made(memory)
    found = over(memory).list_segments(partition, min_offset)
    assert found[-1].start_offset == 5
    assert min_offset >= 5 or found[0].start_offset == 0


def test_hostile_and_strange_folders_are_skipped(memory: ObjectStore) -> None:
    partition = made(memory)
    content = next(iter(files_of_store(memory).items()))
    name = content[0].partition("/")[2]
    for folder in (
        f"..-0-{ID}",
        f".-0-{ID}",
        f"-0-{ID}",
        f"a b-0-{ID}",
        f"é-0-{ID}",
        f"x\n-0-{ID}",
        f"{'x' * 250}-0-{ID}",
        f"x-٣-{ID}",
        f"x-99999999999-{ID}",
        f"x-2147483648-{ID}",
        f"x-{ID}",
        "x-0",
        "x-0-short",
        f"x-0-{'_' * 22}",
        f"x-0-{ID}.tmp",
        f"deeper/x-0-{ID}",
        f"x-0-{ID}-delete",
        "notes",
    ):
        memory.put(f"{folder}/{name}", content[1], overwrite=True)
    memory.put(f"file-0-{ID}", b"a file, no folder", overwrite=True)
    assert over(memory).list_partitions() == [partition]


def test_strange_files_in_a_partition_are_skipped(memory: ObjectStore) -> None:
    partition = made(memory)
    before = over(memory).list_segments(partition)
    stem = f"{9:020d}-{ID}"
    for name in (
        "notes.txt",
        f"{stem}",
        f"{stem}.log.tmp",
        f"{9:019d}-{ID}.log",
        f"{'9' * 20}-{ID}.txt",
        f"{stem}.LOG",
        f"{9:020d}-short.log",
        f"{9:020d}-{'_' * 22}.log",
        f"deeper/{stem}.log",
    ):
        memory.put(f"{FOLDER}/{name}", b"1", overwrite=True)
    assert over(memory).list_segments(partition) == before


def test_an_offset_that_no_broker_has_is_not_listed(memory: ObjectStore) -> None:
    partition = made(memory)
    for suffix in SUFFIXES:
        key = f"{FOLDER}/{'9' * 20}-{ID}.{suffix}"
        memory.put(key, b"", overwrite=True)
    found = over(memory).list_segments(partition)
    assert [s.start_offset for s in found if s.start_offset < 1 << 63] == [0, 5]
    assert len(found) == 2


def test_a_missing_partition_is_not_found(memory: ObjectStore) -> None:
    made(memory)
    for partition in (
        TopicIdPartition("t", 1, Uuid(ID)),
        TopicIdPartition("t", 0),
        TopicIdPartition("u", 0, Uuid(ID)),
    ):
        with pytest.raises(NotFoundError, match=str(partition)):
            over(memory).list_segments(partition)


class TestFetching:
    def test_a_range_of_a_log_is_exact_and_one_request(self) -> None:
        counter = RequestCounter()
        store = ObjectStore(str(KAFKA / "plain" / REMOTE), observer=counter)
        storage = open_storage(store, "kafka-local")
        (partition,) = storage.list_partitions()
        first = storage.list_segments(partition)[0]
        whole = next((KAFKA / "plain" / REMOTE).rglob(f"*{first.id}.log")).read_bytes()
        before = counter.requests
        assert storage.fetch_log_segment(first) == whole
        assert storage.fetch_log_segment(first, 100) == whole[100:]
        assert storage.fetch_log_segment(first, 100, 300) == whole[100:300]
        assert counter.requests == before + 3
        assert storage.fetch_log_segment(first, 100, 100) == b""
        assert storage.fetch_log_segment(first).readonly

    def test_a_range_past_the_end_is_corrupt(self, memory: ObjectStore) -> None:
        storage = over(memory)
        first = storage.list_segments(made(memory))[0]
        assert first.size is not None
        with pytest.raises(CorruptObjectError, match=str(first.id)):
            storage.fetch_log_segment(first, 0, first.size + 1)

    def test_what_was_deleted_since_is_not_found(self, memory: ObjectStore) -> None:
        storage = over(memory)
        first = storage.list_segments(made(memory))[0]
        memory.delete([key for key in files_of_store(memory) if str(first.id) in key])
        with pytest.raises(NotFoundError, match=str(first.id)):
            storage.fetch_log_segment(first)
        with pytest.raises(NotFoundError, match=str(first.id)):
            storage.fetch_index(first, IndexType.OFFSET)

    @pytest.mark.parametrize("deleted", range(1, 6))
    def test_a_segment_that_is_being_deleted_is_not_one_without_some_index(
        self, memory: ObjectStore, deleted: int
    ) -> None:
        """A cache would keep it so, and a copy of the same id has the same name."""
        storage = over(memory)
        first = storage.list_segments(made(memory))[0]
        assert len(storage.fetch_all_indexes(first)) == 4
        files = [key for key in files_of_store(memory) if str(first.id) in key]
        log = next(key for key in files if key.endswith(".log"))
        memory.delete([log, *(key for key in files if key != log)][:deleted])
        if deleted > 1:
            with pytest.raises(NotFoundError, match=str(first.id)):
                storage.fetch_indexes(first, [*IndexType][:4])
        with pytest.raises(NotFoundError, match=str(first.id)):
            storage.fetch_all_indexes(first)

    def test_every_index_is_the_file_beside_the_log(self) -> None:
        storage = real("txn")
        (partition,) = storage.list_partitions()
        files = files_of(KAFKA / "txn" / REMOTE)
        with_aborts = 0
        for segment_ in storage.list_segments(partition):
            found = storage.fetch_all_indexes(segment_)
            mine = {
                key.rpartition(".")[2]: content
                for key, content in files.items()
                if str(segment_.id) in key and not key.endswith(".log")
            }
            assert sorted(bytes(found[kind]) for kind in found) == sorted(mine.values())
            assert found[IndexType.OFFSET] == mine["index"]
            assert found[IndexType.TIMESTAMP] == mine["timeindex"]
            assert found[IndexType.PRODUCER_SNAPSHOT] == mine["snapshot"]
            assert found[IndexType.LEADER_EPOCH] == mine["leader_epoch_checkpoint"]
            if "txnindex" in mine:
                with_aborts += 1
                assert found[IndexType.TRANSACTION] == mine["txnindex"]
            else:
                assert IndexType.TRANSACTION not in found
                with pytest.raises(NotFoundError, match="txnindex"):
                    storage.fetch_index(segment_, IndexType.TRANSACTION)
        assert with_aborts

    def test_only_the_indexes_asked_for_are_fetched(self) -> None:
        storage = real("txn")
        first = storage.list_segments(storage.list_partitions()[0])[0]
        wanted = [IndexType.TIMESTAMP, IndexType.TRANSACTION]
        assert list(storage.fetch_indexes(first, wanted)) == [IndexType.TIMESTAMP]


class TestDescribing:
    def described(self, store: ObjectStore, files: dict[str, bytes]) -> SegmentMetadata:
        fill(store, files)
        storage = over(store)
        (found,) = storage.list_segments(storage.list_partitions()[0])
        return storage.describe(found)

    def test_without_any_index_entry_the_whole_log_tells(
        self, memory: ObjectStore
    ) -> None:
        log = b"".join(encode_batch(records(n, 5)) for n in (3, 8, 13))
        known = self.described(memory, segment(FOLDER, 3, log))
        assert (known.start_offset, known.end_offset) == (3, 17)
        assert known.max_timestamp_ms == 1_700_000_000_004

    @pytest.mark.parametrize(
        ("suffix", "content"),
        [
            ("index", bytes(8)),
            ("index", b"\0" * 7),
            ("index", (2).to_bytes(4, "big") + (1 << 20).to_bytes(4, "big")),
            ("timeindex", b"1"),
            ("timeindex", bytes(24)),
            ("timeindex", (1 << 62).to_bytes(8, "big") + (2).to_bytes(4, "big")),
            ("snapshot", b""),
            ("snapshot", empty_snapshot()[:-1]),
            ("leader_epoch_checkpoint", b""),
            ("leader_epoch_checkpoint", b"0\n2\n0 0\n"),
            ("leader_epoch_checkpoint", b"0\n1\n7 0\n"),
            ("leader_epoch_checkpoint", b"0\n2\n1 5\n0 0\n"),
        ],
    )
    def test_an_index_that_is_malformed_or_untrue_is_named(
        self, memory: ObjectStore, suffix: str, content: bytes
    ) -> None:
        files = segment(FOLDER, 0, encode_batch(records(0, 5)))
        (key,) = [key for key in files if key.endswith(f".{suffix}")]
        files[key] = content
        name = key.rpartition("/")[2].partition(".")[0]
        with pytest.raises(CorruptIndexError, match=name):
            self.described(memory, files)

    @pytest.mark.parametrize("log", [b"\0", bytes(100), b"x" * 100, b""])
    def test_a_log_of_no_batches_is_corrupt_or_empty(
        self, memory: ObjectStore, log: bytes
    ) -> None:
        files = segment(FOLDER, 7, log)
        if log:
            with pytest.raises(CorruptDataError, match="0007"):
                self.described(memory, files)
        else:
            assert self.described(memory, files).end_offset == 6

    def test_a_log_that_ends_where_no_log_can_is_corrupt(
        self, memory: ObjectStore
    ) -> None:
        last = (1 << 63) - 1
        log = encode_batch(records(last - 1, 2))
        with pytest.raises(CorruptBatchError, match=str(last)):
            self.described(memory, segment(FOLDER, last - 1, log))

    @pytest.mark.parametrize("before", [0, 1])
    def test_a_last_batch_that_no_index_knows_follows_the_one_before_it(
        self, memory: ObjectStore, before: int
    ) -> None:
        parts = [encode_batch(records(n, 5)) for n in (0, 5)][:before]
        log = b"".join([*parts, encode_batch(records(before * 5 + 1, 5))])
        with pytest.raises(
            CorruptBatchError, match=rf"offset {before * 5 + 1} follows"
        ):
            self.described(memory, segment(FOLDER, 0, log))

    @pytest.mark.parametrize(
        "log",
        [
            [records(0, 5), records(7, 5), records(20, 5)],
            [records(3, 5), records(8, 5), records(20, 5)],
            [[*records(0, 2), *records(9, 2)], records(20, 5)],
        ],
        ids=["between batches", "in front", "in a batch"],
    )
    def test_it_need_not_follow_where_the_log_was_cleaned_before_it_was_tiered(
        self, memory: ObjectStore, log: list[list[WireRecord]]
    ) -> None:
        files = segment(FOLDER, 0, b"".join(map(encode_batch, log)))
        assert self.described(memory, files).end_offset == 24


def test_it_pickles_and_takes_another_policy(memory: ObjectStore) -> None:
    partition = made(memory)
    storage = over(memory)
    listed = storage.list_segments(partition)
    again = pickle.loads(pickle.dumps(storage))  # noqa: S301 - our own
    assert again.list_segments(partition) == listed
    hasty = storage.with_policy(RequestPolicy(attempts=1))
    assert type(hasty) is type(storage)
    assert hasty.store.policy.attempts == 1
    assert storage.store.policy.attempts == 5
    assert hasty.list_segments(partition) == listed


def test_its_repr_tells_no_secret() -> None:
    store = ObjectStore("s3://user:hunter2@bucket/x", {"secret": "hunter2"})
    assert "hunter2" not in repr(open_storage(store, "kafka-local"))
