"""A read of committed records gives what Kafka's consumer gives with read_committed."""

import shutil
import uuid
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal

import hypothesis.strategies as st
import pytest
from hypothesis import given

import tieredfs
from support.log_directories import push_all, write_log
from support.transactions import (
    Step,
    TransactionalLog,
    put_tiered,
    replicas,
    transactional_logs,
    write_broker_log,
)
from tieredfs import (
    IndexType,
    NotFoundError,
    ObjectStore,
    RemoteStorageManager,
    RequestEvent,
    Scan,
    SegmentIndexes,
    SegmentMetadata,
    Topic,
)
from tieredfs.log.verify.verify import Depth, verify
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject

LAYOUTS = ("kafka-local", "native", "native, zstd")

ABORTED_LATER: Sequence[Step] = (
    ("plain", 0, 2),
    ("data", 0, 2),
    ("roll", 0, 0),
    ("data", 1, 2),
    ("commit", 1, 0),
    ("roll", 0, 0),
    ("plain", 0, 1),
    ("abort", 0, 0),
    ("roll", 0, 0),
    ("plain", 0, 1),
)
"""Records 2 and 3 are aborted two segments later, at offset 8."""


class _Watch:
    """Counts the requests by key."""

    def __init__(self) -> None:
        self.keys: Counter[str] = Counter()

    def on_request(self, event: RequestEvent) -> None:
        """Count one."""
        self.keys[event.key] += 1


def _storage(
    log: TransactionalLog,
    layout: str,
    watch: _Watch | None = None,
    *others: TransactionalLog,
) -> RemoteStorageManager:
    """Store a log, or several replicas of one, in a layout."""
    url = f"memory://committed-{uuid.uuid4().hex}"
    store = ObjectStore(url)
    for number, one in enumerate((log, *others)):
        for key, content in put_tiered(one, number).items():
            store.put(key, content, overwrite=False)
    if layout == "kafka-local":
        return KafkaLocal(ObjectStore(url, observer=watch))
    compression: Literal["zstd"] | None = "zstd" if "zstd" in layout else None
    target = f"memory://committed-{uuid.uuid4().hex}"
    push_all(
        KafkaLocal(store), SingleObject(ObjectStore(target), compression=compression)
    )
    return SingleObject(ObjectStore(target, observer=watch))


def _topic(storage: RemoteStorageManager) -> Topic:
    return tieredfs.Tier(storage).topic("t")


def _offsets(scan: Scan) -> list[int]:
    return [one for batch in scan for one in batch["offset"].to_pylist()]


def _read_on(topic: Topic, offset: int, max_bytes: int) -> list[int]:
    """Read as a consumer does, until nothing more is stable."""
    found: list[int] = []
    while True:
        records = topic.read(0, offset, max_bytes, isolation="read_committed")
        found += records["offset"].to_pylist()
        if not len(records):
            return found
        assert records.next_offset > offset
        offset = records.next_offset


@pytest.mark.parametrize("layout", LAYOUTS)
@given(log=transactional_logs(), data=st.data())
def test_it_has_the_records_of_committed_transactions_and_of_none(
    layout: str, log: TransactionalLog, data: st.DataObject
) -> None:
    topic = _topic(_storage(log, layout))
    end = log.end
    scan = topic.scan(isolation="read_committed")
    assert _offsets(scan) == log.visible(0, end)
    start = data.draw(st.integers(0, end))
    stop = data.draw(st.integers(start, end))
    cut = topic.scan(start=start, end=stop, isolation="read_committed")
    assert _offsets(cut) == log.visible(start, stop)
    parts = [one for part in cut.split(1) for one in _offsets(part)]
    assert parts == log.visible(start, stop)
    few = [
        one for batch in cut.read_gradually(1) for one in batch["offset"].to_pylist()
    ]
    assert few == log.visible(start, stop)
    max_bytes = data.draw(st.sampled_from((0, 200, 1 << 20)))
    assert _read_on(topic, start, max_bytes) == log.visible(start, end)


@pytest.mark.parametrize("layout", LAYOUTS)
@given(logs=replicas(), data=st.data())
def test_of_replicas_whose_segments_overlap_it_has_each_committed_record_once(
    layout: str, logs: list[TransactionalLog], data: st.DataObject
) -> None:
    log, other = logs
    topic = _topic(_storage(log, layout, None, other))
    start = data.draw(st.integers(0, log.end))
    stop = data.draw(st.integers(start, log.end))
    scan = topic.scan(start=start, end=stop, isolation="read_committed")
    assert _offsets(scan) == log.visible(start, stop)
    assert _read_on(topic, start, 200) == log.visible(start, log.end)


@given(log=transactional_logs(), data=st.data())
def test_it_ends_before_a_transaction_that_is_open_in_a_broker_s_log(
    log: TransactionalLog, data: st.DataObject
) -> None:
    folder = Path(mkdtemp())
    try:
        write_broker_log(log, folder)
        topic = _topic(KafkaLog(ObjectStore(str(folder))))
        start = data.draw(st.integers(0, log.end))
        scan = topic.scan(start=start, isolation="read_committed")
        assert _offsets(scan) == log.visible(start, log.end)
        assert _read_on(topic, start, 1 << 20) == log.visible(start, log.end)
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_aborts_are_found_in_a_segment_after_the_end_of_the_scan(layout: str) -> None:
    topic = _topic(_storage(TransactionalLog(ABORTED_LATER), layout))
    scan = topic.scan(end=4, isolation="read_committed")
    assert _offsets(scan) == [0, 1]
    assert _offsets(topic.scan(end=4)) == [0, 1, 2, 3]
    found = topic.read(0, 2, isolation="read_committed")
    assert found["offset"].to_pylist() == [4, 5, 7, 9]


def test_each_index_is_fetched_once_and_those_listed_as_empty_never() -> None:
    watch = _Watch()
    topic = _topic(_storage(TransactionalLog(ABORTED_LATER), "kafka-local", watch))
    scan = topic.scan(isolation="read_committed")
    watch.keys.clear()
    assert _offsets(scan) == [0, 1, 4, 5, 7, 9]
    asked = Counter(key.rpartition(".")[2] for key in watch.keys.elements())
    assert asked == {"log": 4, "txnindex": 1}


def test_a_log_without_transactions_costs_what_an_uncommitted_read_costs() -> None:
    steps = [("plain", 0, 3), ("roll", 0, 0), ("plain", 0, 3)]
    watch = _Watch()
    topic = _topic(_storage(TransactionalLog(steps), "native", watch))
    counts = []
    for isolation in ("read_uncommitted", "read_committed"):
        scan = topic.scan(isolation=isolation)
        watch.keys.clear()
        _offsets(scan)
        counts.append(watch.keys.total())
    assert counts[0] == counts[1]


def test_a_start_in_an_open_transaction_gives_no_record() -> None:
    steps = [("plain", 0, 2), ("data", 0, 2), ("plain", 0, 2)]
    topic = _topic(_storage(TransactionalLog(steps), "native"))
    for start in range(2, 7):
        scan = topic.scan(start=start, isolation="read_committed")
        assert not _offsets(scan)
        found = topic.read(0, start, isolation="read_committed")
        assert not len(found)
        assert found.next_offset == start
    with pytest.raises(tieredfs.OffsetOutOfRangeError):
        topic.scan(start=7, isolation="read_committed")


def test_where_the_end_of_a_transaction_is_missing_it_is_an_error_unless_skipped() -> (
    None
):
    log = TransactionalLog(ABORTED_LATER)
    storage = _storage(log, "native")
    last, *_ = storage.list_segments(storage.list_partitions()[0], 7)
    scan = _topic(storage).scan(end=4, isolation="read_committed")
    skipping = _topic(storage).scan(end=4, isolation="read_committed", on_gap="skip")
    storage.delete_log_segment(last)
    with pytest.raises(tieredfs.CorruptDataError, match="offsets 7 to 8"):
        _offsets(scan)
    assert _offsets(skipping) == [0, 1, 2, 3]


ABORTED_NEXT: Sequence[Step] = (
    ("plain", 0, 3),
    ("data", 0, 2),
    ("plain", 0, 3),
    ("roll", 0, 0),
    ("plain", 0, 2),
    ("abort", 0, 0),
    ("roll", 0, 0),
    ("plain", 0, 2),
)
"""Records 3 and 4 are aborted in the next segment, which begins at offset 8."""


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_following_segment_that_goes_takes_no_record_of_others_with_it(
    is_replaced: bool,
) -> None:
    log, url = TransactionalLog(ABORTED_NEXT), f"memory://committed-{uuid.uuid4().hex}"
    store, files = ObjectStore(url), put_tiered(log)
    for key, content in files.items():
        store.put(key, content, overwrite=False)
    topic = _topic(KafkaLocal(store))
    scan = topic.scan(isolation="read_committed", on_gap="skip")
    for key in [key for key in files if f"/{8:020d}-" in key]:
        name, *_ = key.rpartition("/")[2].partition(".")
        if is_replaced:
            other = key.replace(name, f"{name[:21]}{'A' * 20}Zw")
            store.put(other, files[key], overwrite=False)
        store.delete([key])
    # Without the end of the transaction it is not known that it was aborted.
    expected = log.visible(0, 8) if is_replaced else list(range(8))
    assert [one for one in _offsets(scan) if one < 8] == expected


@pytest.mark.parametrize("is_replaced", [False, True])
def test_of_a_following_segment_that_is_replaced_the_other_one_says_what_was_aborted(
    is_replaced: bool,
) -> None:
    log, url = TransactionalLog(ABORTED_NEXT), f"memory://committed-{uuid.uuid4().hex}"
    store, files = ObjectStore(url), put_tiered(log)
    for key, content in files.items():
        store.put(key, content, overwrite=False)
    scan = _topic(KafkaLocal(store)).scan(isolation="read_committed")
    for key in [key for key in files if f"/{8:020d}-" in key]:
        name, *_ = key.rpartition("/")[2].partition(".")
        if is_replaced:
            other = key.replace(name, f"{name[:21]}{'A' * 20}Zw")
            store.put(other, files[key], overwrite=False)
        store.delete([key])
    if is_replaced:
        assert (
            _offsets(scan)
            == _offsets(_topic(KafkaLocal(store)).scan(isolation="read_committed"))
            != []
        )
    else:
        with pytest.raises(NotFoundError, match=f"{8:020d}-"):
            _offsets(scan)


class _Leaving(KafkaLocal):
    """A tier from which a segment goes just before it is described, when that is armed.

    Attributes:
        leaving: The keys that are deleted then; none before.
    """

    leaving: Sequence[str] = ()

    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        """Delete what leaves, once, and ask."""
        leaving, self.leaving = self.leaving, ()
        if leaving:
            self.store.delete(leaving)
        return super().describe(metadata, indexes)


@pytest.mark.parametrize("is_all", [False, True])
def test_a_segment_that_goes_as_it_is_listed_takes_no_record_of_others_with_it(
    is_all: bool,
) -> None:
    log, url = TransactionalLog(ABORTED_NEXT), f"memory://committed-{uuid.uuid4().hex}"
    store, files = ObjectStore(url), put_tiered(log)
    for key, content in files.items():
        store.put(key, content, overwrite=False)
    storage = _Leaving(store)
    scan = _topic(storage).scan(end=8, isolation="read_committed", on_gap="skip")
    batches = iter(scan)
    storage.leaving = [key for key in files if is_all or f"/{8:020d}-" in key]
    # The end of the transaction is gone: it is taken as committed.
    found = [one for batch in batches for one in batch["offset"].to_pylist()]
    assert found == list(range(8))


@pytest.mark.parametrize("rolls", [1, 3])
def test_an_open_transaction_is_found_where_no_producer_snapshot_is_stored(
    tmp_path: Path, rolls: int
) -> None:
    steps: list[Step] = [("plain", 0, 3), ("data", 0, 2), ("plain", 0, 3)]
    for _ in range(rolls):
        steps += [("roll", 0, 0), ("plain", 0, 2)]
    log = TransactionalLog(steps)
    write_broker_log(log, tmp_path)
    for snapshot in tmp_path.rglob("*.snapshot"):
        snapshot.unlink()
    topic = _topic(KafkaLog(ObjectStore(str(tmp_path))))
    assert _offsets(topic.scan(isolation="read_committed")) == log.visible(0, log.end)
    assert log.visible(0, log.end) == [0, 1, 2]


def test_a_log_of_an_empty_active_segment_alone_is_stable_where_it_begins(
    tmp_path: Path,
) -> None:
    write_log(tmp_path, {50: b""})
    topic = _topic(KafkaLog(ObjectStore(str(tmp_path))))
    assert not _offsets(topic.scan(isolation="read_committed"))


def test_an_unknown_isolation_is_refused_with_those_there_are() -> None:
    topic = _topic(_storage(TransactionalLog([("plain", 0, 1)]), "native"))
    with pytest.raises(tieredfs.InvalidArgumentError, match="read_committed"):
        topic.scan(isolation="committed")  # type: ignore[arg-type]
    with pytest.raises(tieredfs.InvalidArgumentError, match="read_committed"):
        topic.read(0, 0, isolation="committed")  # type: ignore[arg-type]


def test_a_prediction_is_at_most_exceeded_by_nothing() -> None:
    topic = _topic(_storage(TransactionalLog(ABORTED_LATER), "native"))
    scan = topic.scan(isolation="read_committed")
    planned = scan.explain()
    _offsets(scan)
    assert scan.stats.requests <= planned.reading
    assert not planned.is_exact


def test_no_index_is_fetched_beyond_the_last_transaction_that_is_read() -> None:
    # The first index lists what is read; another transaction is open where it ends.
    steps: list[Step] = [("data", 0, 2), ("abort", 0, 0), ("data", 1, 2)]
    steps += [("roll", 0, 0), ("abort", 1, 0), ("roll", 0, 0), ("plain", 0, 1)]
    watch = _Watch()
    topic = _topic(_storage(TransactionalLog(steps), "kafka-local", watch))
    scan = topic.scan(end=2, isolation="read_committed")
    watch.keys.clear()
    assert _offsets(scan) == []
    asked = [key for key in watch.keys.elements() if key.endswith("txnindex")]
    assert len(asked) == 1


def test_segments_that_are_read_without_a_transaction_are_passed_over() -> None:
    steps: list[Step] = [("data", 0, 1), ("abort", 0, 0), ("roll", 0, 0)]
    steps += [("plain", 0, 3), ("roll", 0, 0)] * 3
    steps += [("data", 1, 2), ("roll", 0, 0), ("plain", 0, 1), ("abort", 1, 0)]
    log = TransactionalLog(steps)
    for layout in LAYOUTS:
        scan = _topic(_storage(log, layout)).scan(isolation="read_committed")
        assert _offsets(scan) == log.visible(0, log.end)


def test_a_push_of_segments_that_overlap_keeps_the_indexes_of_each() -> None:
    steps: list[Step] = [("plain", 0, 1), ("data", 2, 1), ("plain", 0, 2)]
    steps += [("abort", 2, 0), ("plain", 0, 1)]
    roll: Step = ("roll", 0, 0)
    # The second segment of the second ends after the abort; of the first, before it.
    first = TransactionalLog([*steps[:2], roll, steps[2], roll, *steps[3:]])
    second = TransactionalLog([steps[0], roll, *steps[1:4], roll, steps[4]])
    source = _storage(first, "kafka-local", None, second)
    target = _storage(first, "native", None, second)
    (partition,) = source.list_partitions()
    kinds = (IndexType.TRANSACTION, IndexType.PRODUCER_SNAPSHOT)
    listed = target.list_segments(partition)
    found = {(one.start_offset, one.end_offset): one for one in listed}
    assert len(found) == 6
    for one in map(source.describe, source.list_segments(partition)):
        kept = target.fetch_indexes(found[one.start_offset, one.end_offset], kinds)
        wanted = source.fetch_indexes(one, kinds)
        assert kept.get(kinds[0], b"") == wanted.get(kinds[0], b"")
        assert kept[kinds[1]] == wanted[kinds[1]]


def test_an_index_that_lacks_an_abort_is_seen_by_verifying_deeply_alone() -> None:
    steps: list[Step] = [("plain", 0, 1), ("data", 0, 1), ("abort", 0, 0)]
    files = put_tiered(TransactionalLog([*steps, ("roll", 0, 0), ("plain", 0, 1)]))
    (index,) = (key for key in files if key.endswith("txnindex"))
    store = ObjectStore(f"memory://committed-{uuid.uuid4().hex}")
    for key, content in files.items():
        store.put(key, b"" if key == index else content, overwrite=False)
    storage = KafkaLocal(store)
    assert _offsets(_topic(storage).scan(isolation="read_committed")) == [0, 1, 3]
    partitions = storage.list_partitions()
    (report,) = verify(storage, partitions)
    assert not report.problems
    (report,) = verify(storage, partitions, Depth.EVERYTHING)
    (problem,) = report.problems
    assert "TRANSACTION index: it lacks an aborted transaction" in problem.detail
