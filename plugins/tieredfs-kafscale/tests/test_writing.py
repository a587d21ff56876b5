"""What is written is what KafScale's broker would have written, and is read back."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.made_logs import RECORDS, MadeLog, made_logs
from support.samples import PARTITIONS, new_store, opened, read, written
from tieredfs import (
    AlreadyExistsError,
    CorruptBatchError,
    IndexType,
    InvalidArgumentError,
    LogSegmentData,
    NotFoundError,
    ObjectStore,
    SegmentMetadata,
    StorageUnavailableError,
    Tier,
    TieredFSError,
    TopicIdPartition,
    UnsupportedOperationError,
)
from tieredfs.log.scrub.scrub import LeftoverState, scrub
from tieredfs.storage import log_in_memory
from tieredfs.testing.samples import PARTITIONS as MADE
from tieredfs.testing.samples import sample
from tieredfs_kafscale import KafScale

FIRST, SECOND = made_logs("a", 1)[0], made_logs("b", 1)[0]
OTHER = SECOND._replace(
    metadata=replace(SECOND.metadata, partition=FIRST.metadata.partition)
)


_LOG = b"".join(made.log for made in made_logs("d", 2))
LONG = MadeLog(
    replace(OTHER.metadata, end_offset=2 * RECORDS - 1), LogSegmentData(_LOG, {}), _LOG
)


def copy(storage: KafScale, made: MadeLog) -> bytes:
    return storage.copy_log_segment(made.metadata, made.data)


def only(storage: KafScale) -> SegmentMetadata:
    (partition,) = storage.list_partitions()
    (segment,) = storage.list_segments(partition)
    return segment


@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
def test_a_copy_of_a_brokers_segment_is_byte_for_byte_what_the_broker_wrote(
    memory: ObjectStore, partition: TopicIdPartition
) -> None:
    source, target = opened(), KafScale(memory, time_index=True)
    for segment in source.list_segments(partition):
        data = LogSegmentData(source.fetch_log_segment(segment), {})
        target.copy_log_segment(segment, data)
    theirs, mine = written(source.store), written(memory)
    assert mine
    for key, content in mine.items():
        if key in theirs or not key.endswith(".kfst"):
            # An index that was deleted is written again.
            assert content == theirs.get(key, content)
    assert read(target, partition) == read(source, partition)


def test_indexes_have_the_interval_that_was_asked_for(memory: ObjectStore) -> None:
    source, target = opened(), KafScale(memory, index_interval=1)
    (partition,) = [one for one in PARTITIONS if str(one) == "index-interval-0"]
    segment = source.list_segments(partition)[0]
    data = LogSegmentData(source.fetch_log_segment(segment), {})
    target.copy_log_segment(segment, data)
    mine = target.fetch_index(segment, IndexType.OFFSET)
    assert len(mine) > len(source.fetch_index(segment, IndexType.OFFSET))


class TestCopyingAgain:
    @pytest.mark.parametrize("another", [False, True])
    def test_the_same_segment_changes_nothing(
        self, memory: ObjectStore, another: bool
    ) -> None:
        storage = KafScale(memory)
        custom = copy(storage, FIRST)
        before = {entry.key: entry.version for entry in memory.list()}
        assert copy(KafScale(memory) if another else storage, FIRST) == custom
        assert {entry.key: entry.version for entry in memory.list()} == before

    def test_another_segment_of_the_same_offset_is_refused(
        self, memory: ObjectStore
    ) -> None:
        storage = KafScale(memory)
        copy(storage, FIRST)
        before = written(memory)
        with pytest.raises(AlreadyExistsError, match="another segment begins there"):
            copy(storage, OTHER)
        assert written(memory) == before

    @pytest.mark.parametrize("half", ["kfs", "index"])
    def test_what_another_log_has_left_is_replaced(
        self, memory: ObjectStore, half: str
    ) -> None:
        storage = KafScale(memory)
        copy(storage, FIRST)
        gone = [e.key for e in memory.list() if not e.key.endswith(f".{half}")]
        memory.delete(gone)
        copy(storage, OTHER)
        assert storage.fetch_log_segment(only(storage)) == OTHER.log
        assert list(storage.scrub(FIRST.metadata.partition)) == []

    def test_an_index_that_another_copy_has_left_is_not_taken_for_this_ones(
        self, memory: ObjectStore
    ) -> None:
        storage = KafScale(memory, index_interval=1)
        storage.copy_log_segment(LONG.metadata, LONG.data)
        index = next(e.key for e in memory.list() if e.key.endswith(".index"))
        right = bytes(memory.get(index))
        memory.delete([e.key for e in memory.list()])
        copy(storage, FIRST)
        memory.delete([e.key for e in memory.list() if e.key.endswith(".kfs")])
        storage.copy_log_segment(LONG.metadata, LONG.data)
        assert bytes(memory.get(index)) == right

    def test_what_a_copy_has_left_is_kept_for_the_rest(
        self, memory: ObjectStore
    ) -> None:
        storage = KafScale(memory)
        copy(storage, FIRST)
        (kept,) = [e for e in memory.list() if e.key.endswith(".kfs")]
        memory.delete([e.key for e in memory.list() if e.key != kept.key])
        copy(KafScale(memory), FIRST)
        assert memory.head(kept.key).version == kept.version

    def test_a_replacement_leaves_nothing_of_the_other_log(
        self, memory: ObjectStore
    ) -> None:
        storage = KafScale(memory, time_index=True)
        aborted = sample(MADE[0], 1)
        storage.copy_log_segment(aborted.metadata, aborted.data)
        partition = aborted.metadata.partition
        logs = made_logs("c", 8)
        log = next(one for one in logs if one.metadata.start_offset > 20)
        metadata = replace(log.metadata, partition=partition)
        storage.copy_log_segment(metadata, log.data)
        storage.replace_log_segment(metadata, log_in_memory(log.log, ""), {})
        assert list(storage.scrub(partition)) == []


class TestTransactions:
    """KafScale has none: what they need besides is stored beside the segment."""

    def test_an_aborted_transaction_stays_hidden(self, memory: ObjectStore) -> None:
        aborted = sample(MADE[0], 1)
        storage = KafScale(memory)
        custom = storage.copy_log_segment(aborted.metadata, aborted.data)
        segment = only(storage)
        assert segment.custom_metadata == custom
        assert not storage.is_txn_index_empty(segment)
        found = storage.fetch_all_indexes(segment)
        for kind in (
            IndexType.TRANSACTION,
            IndexType.PRODUCER_SNAPSHOT,
            IndexType.LEADER_EPOCH,
        ):
            assert found[kind] == aborted.data.indexes[kind]
        topic = Tier(storage).topic(MADE[0].topic)
        records = topic.scan(isolation="read_committed").to_table().num_rows
        assert 0 < records < topic.scan().to_table().num_rows

    def test_what_is_beside_a_segment_belongs_to_its_log(
        self, memory: ObjectStore
    ) -> None:
        aborted = sample(MADE[0], 1)
        storage = KafScale(memory)
        storage.copy_log_segment(aborted.metadata, aborted.data)
        key = next(e.key for e in memory.list() if e.key.endswith(".txnindex"))
        beside = bytes(memory.get(key))
        storage.delete_log_segment(only(storage))
        assert written(memory) == {}
        memory.put(key.replace(key[-17:-9], "00000000"), beside, overwrite=True)
        partition = aborted.metadata.partition
        (left,) = storage.scrub(partition)
        assert "no log with the checksum 00000000" in left.reason

    def test_a_log_with_aborts_and_without_their_index_is_refused(
        self, memory: ObjectStore
    ) -> None:
        aborted = sample(MADE[0], 1)
        given = dict(aborted.data.indexes)
        del given[IndexType.TRANSACTION]
        with pytest.raises(TieredFSError, match="TRANSACTION"):
            KafScale(memory).copy_log_segment(
                aborted.metadata, LogSegmentData(aborted.log, given)
            )
        assert written(memory) == {}


class TestAnotherSegmentOfTheSameOffset:
    """It has been stored since this one was listed."""

    def test_is_not_deleted(self, memory: ObjectStore) -> None:
        storage = KafScale(memory)
        copy(storage, FIRST)
        listed = only(storage)
        storage.replace_log_segment(OTHER.metadata, log_in_memory(OTHER.log, ""), {})
        storage.delete_log_segment(listed)
        assert storage.fetch_log_segment(only(storage)) == OTHER.log

    def test_is_not_the_one_that_was_listed(self, memory: ObjectStore) -> None:
        storage = KafScale(memory)
        copy(storage, FIRST)
        listed = only(storage)
        assert storage.is_current(listed)
        storage.replace_log_segment(LONG.metadata, log_in_memory(LONG.log, ""), {})
        assert not storage.is_current(listed)
        storage.delete_log_segment(only(storage))
        assert not storage.is_current(listed)

    def test_ends_a_scan_that_was_planned_before(self, memory: ObjectStore) -> None:
        storage = KafScale(memory)
        copy(storage, FIRST)
        scan = Tier(storage).topic("t").scan()
        storage.replace_log_segment(OTHER.metadata, log_in_memory(OTHER.log, ""), {})
        with pytest.raises(StorageUnavailableError, match="replacing this segment"):
            scan.to_table()


def test_the_transactions_of_a_log_that_lost_its_index_are_no_ones_to_remove(
    memory: ObjectStore,
) -> None:
    aborted = sample(MADE[0], 1)
    storage = KafScale(memory)
    storage.copy_log_segment(aborted.metadata, aborted.data)
    before = written(memory)
    index = next(key for key in before if key.endswith(".index"))
    memory.delete([index])
    partitions = storage.leftover_partitions()
    report = scrub(
        storage, partitions, delete=True, older_than=timedelta(0), now=time.time
    )
    assert {one.state for one in report.leftovers} == {LeftoverState.ONLY_COPY}
    assert written(memory).keys() == before.keys() - {index}


def test_a_log_that_lost_its_index_is_removed_if_its_records_are_in_another_segment(
    memory: ObjectStore,
) -> None:
    storage = KafScale(memory)
    _, second = made_logs("d", 2)
    copy(storage, second)
    memory.delete([one.key for one in memory.list() if one.key.endswith(".index")])
    copy(storage, LONG)
    (left,) = storage.scrub(second.metadata.partition)
    assert left.log_start == RECORDS
    report = scrub(
        storage,
        storage.leftover_partitions(),
        delete=True,
        older_than=timedelta(0),
        now=time.time,
    )
    assert [one.state for one in report.leftovers] == [LeftoverState.DELETED]
    assert storage.fetch_log_segment(only(storage)) == LONG.log


def without_end(made: MadeLog) -> MadeLog:
    return made._replace(metadata=replace(made.metadata, end_offset=None))


def with_hole(made: MadeLog) -> MadeLog:
    end = (made.metadata.end_offset or 0) + 1
    return made._replace(metadata=replace(made.metadata, end_offset=end))


def without_batch(made: MadeLog) -> MadeLog:
    end = made.metadata.start_offset - 1
    metadata = replace(made.metadata, end_offset=end, leader_epochs=None)
    return MadeLog(metadata, LogSegmentData(b"", {}), b"")


def damaged(made: MadeLog) -> MadeLog:
    log = made.log[:-1] + bytes([made.log[-1] ^ 1])
    return made._replace(data=LogSegmentData(log, {}))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (without_end, InvalidArgumentError),
        (with_hole, UnsupportedOperationError),
        (without_batch, TieredFSError),
        (damaged, CorruptBatchError),
    ],
)
def test_what_cannot_be_stored_is_refused_before_anything_is(
    memory: ObjectStore,
    change: Callable[[MadeLog], MadeLog],
    error: type[TieredFSError],
) -> None:
    with pytest.raises(error):
        copy(KafScale(memory), change(FIRST))
    assert written(memory) == {}


@pytest.mark.parametrize(
    "options",
    [
        {"namespace": ""},
        {"namespace": "a/b"},
        {"namespace": 5},
        {"index_interval": 0},
        {"index_interval": True},
        {"index_interval": "100"},
        {"time_index": "yes"},
    ],
)
def test_a_wrong_option_is_refused_by_its_name(
    memory: ObjectStore, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        KafScale(memory, **options)


@settings(max_examples=60)
@given(cuts=st.tuples(st.integers(0, 400), st.integers(0, 400)).map(sorted))
def test_any_range_of_a_log_is_that_of_the_log(cuts: list[int]) -> None:
    storage = KafScale(new_store())
    copy(storage, FIRST)
    segment = only(storage)
    start, end = cuts
    copied = replace(FIRST.metadata, size=None, custom_metadata=b"")
    for metadata in (segment, copied):
        if end <= len(FIRST.log):
            found = storage.fetch_log_segment(metadata, start, end)
            assert found == FIRST.log[start:end]
        else:
            with pytest.raises(TieredFSError, match="its log has"):
                storage.fetch_log_segment(metadata, start, end)


def test_a_deleted_segment_is_gone(memory: ObjectStore) -> None:
    storage = KafScale(memory, time_index=True)
    copy(storage, FIRST)
    segment = only(storage)
    storage.delete_log_segment(segment)
    storage.delete_log_segment(segment)
    assert written(memory) == {}
    with pytest.raises(NotFoundError):
        storage.fetch_log_segment(segment)
    with pytest.raises(NotFoundError):
        storage.list_segments(segment.partition)
