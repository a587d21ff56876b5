"""A view of a partition gives its batches as they lie in the log, and what is known."""

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from support.golden import log_batches, rows_of
from support.kafka_data import KAFKA, REMOTE
from support.log_directories import (
    log_of,
    partition_of,
    push_all,
    small,
    source_of,
    topic_of,
    write_log,
)
from support.transactions import (
    Step,
    TransactionalLog,
    put_tiered,
    transactional_logs,
)
from support.wire import WireRecord, encode_batch
from tieredfs import (
    CorruptDataError,
    EpochEntry,
    NotFoundError,
    ObjectStore,
    OffsetOutOfRangeError,
    Options,
    RemoteStorageManager,
    RequestCounter,
    SegmentMetadata,
    StorageUnavailableError,
    TopicIdPartition,
)
from tieredfs.cache.log_blocks import LogBlocks
from tieredfs.epochs import LeaderEpochs
from tieredfs.fetch.block_reader import BlockReader
from tieredfs.fetch.purgatory import FetchPurgatory
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.log import SegmentCatalog, TieredReader
from tieredfs.log.read.partition_view import PartitionView, RawBatches
from tieredfs.storage import StorageWrapper
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject

TOPICS = sorted(path.name for path in KAFKA.iterdir() if (path / REMOTE).is_dir())
SMALL_BLOCK = 4096
WAIT_SECONDS = 5.0


@pytest.fixture(scope="module")
def purgatory() -> Iterator[FetchPurgatory]:
    """One for all views."""
    with FetchPurgatory() as made:
        yield made


def _view(
    storage: RemoteStorageManager,
    partition: TopicIdPartition,
    purgatory: FetchPurgatory,
    blocks: LogBlocks | None = None,
) -> PartitionView:
    reader = TieredReader(storage, SegmentCatalog(storage), partition)
    held = LogBlocks() if blocks is None else blocks
    by_blocks = BlockReader(storage, held, purgatory, block_bytes=SMALL_BLOCK)
    return PartitionView(reader, reader.segments(), by_blocks)


def _read_all(
    view: PartitionView, start: int, max_bytes: int, below: int | None = None
) -> list[RawBatches]:
    found, offset = [], start
    while (raw := view.read(offset, max_bytes, below=below)).parts:
        found.append(raw)
        assert raw.next_offset > offset
        offset = raw.next_offset
    return found


def _decoded(found: list[RawBatches], start: int) -> list[dict[str, Any]]:
    """Decode batches as a client does: without those of Kafka, from an offset on."""
    rows: list[dict[str, Any]] = []
    for raw in found:
        for part in raw.parts:
            for batches in log_batches(bytes(part)):
                plain = batches.without(batches.is_control)
                for records in RecordDecoder("t", 0).decode(plain):
                    rows += rows_of(records)
    return [row for row in rows if row["offset"] >= start]


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("is_pushed", [False, True])
def test_it_has_the_records_of_a_scan_from_every_offset(
    topic: str, is_pushed: bool, purgatory: FetchPurgatory
) -> None:
    storage: RemoteStorageManager = KafkaLocal(ObjectStore(str(KAFKA / topic / REMOTE)))
    if is_pushed:
        target = SingleObject(
            ObjectStore(f"memory://view-{uuid.uuid4().hex}"), compression="zstd"
        )
        push_all(storage, target)
        storage = target
    for partition in storage.list_partitions():
        number = partition.partition
        records = topic_of(storage, partition.topic)
        view = _view(storage, partition, purgatory)
        bounds = records.beginning_offsets()[number], records.end_offsets()[number]
        assert (view.beginning, view.end) == bounds
        expected = [
            {**row, "topic": "t", "partition": 0}
            for row in rows_of(records.scan([number]).to_table())
        ]
        for start in range(view.beginning, view.end, max(1, view.end // 7)):
            for max_bytes in (1, 1000, 1 << 20):
                found = _decoded(_read_all(view, start, max_bytes), start)
                assert found == [one for one in expected if one["offset"] >= start]


def test_its_batches_are_the_bytes_of_the_log(purgatory: FetchPurgatory) -> None:
    (tiered,) = (KAFKA / "txn" / REMOTE).iterdir()
    logs = [path.read_bytes() for path in sorted(tiered.glob("*.log"))]
    storage = KafkaLocal(ObjectStore(str(KAFKA / "txn" / REMOTE)))
    (partition,) = storage.list_partitions()
    view = _view(storage, partition, purgatory)
    for max_bytes in (1, 700, 1 << 20):
        found = _read_all(view, view.beginning, max_bytes)
        assert b"".join(b"".join(raw.parts) for raw in found) == b"".join(logs)
        for raw in found:
            count = sum(len(one) for p in raw.parts for one in log_batches(bytes(p)))
            assert raw.size <= max_bytes or count == 1


@given(log=transactional_logs(), data=st.data())
def test_what_is_stable_and_what_was_aborted_is_as_a_leader_knows_it(
    log: TransactionalLog, data: st.DataObject
) -> None:
    store = ObjectStore(f"memory://view-{uuid.uuid4().hex}")
    for key, content in put_tiered(log).items():
        store.put(key, content, overwrite=False)
    storage = KafkaLocal(store)
    (partition,) = storage.list_partitions()
    start = data.draw(st.integers(0, log.end))
    max_bytes = data.draw(st.sampled_from([1, 200, 1 << 20]))
    with FetchPurgatory() as purgatory:
        view = _view(storage, partition, purgatory)
        stable = view.stable_offset
        found = _read_all(view, start, max_bytes, below=stable)
        end = found[-1].next_offset if found else start
        aborted = view.aborted(start, end)
    offsets = [
        row["offset"]
        for raw in found
        for part in raw.parts
        for batches in log_batches(bytes(part))
        for batch in batches
        if not any(
            batch.header.producer_id == one.producer_id
            and one.first_offset <= batch.header.base_offset <= one.last_offset
            and batches.is_transactional.any()
            for one in aborted
        )
        for row in _decoded([RawBatches((part,), 0, is_transactional=False)], 0)
        if batch.header.base_offset <= row["offset"] <= batch.header.last_offset
    ]
    assert [one for one in offsets if one >= start] == log.visible(start, log.end)


def test_a_transaction_that_may_end_in_a_gap_is_an_error(
    purgatory: FetchPurgatory,
) -> None:
    rolled: list[Step] = [("plain", 0, 2), ("roll", 0, 0)]
    log = TransactionalLog([("data", 0, 2), ("roll", 0, 0), *rolled, *rolled])
    store = ObjectStore(f"memory://view-{uuid.uuid4().hex}")
    for key, content in put_tiered(log).items():
        if f"/{log.segments[1].start:020d}-" not in key:
            store.put(key, content, overwrite=False)
    storage = KafkaLocal(store)
    (partition,) = storage.list_partitions()
    view = _view(storage, partition, purgatory)
    with pytest.raises(CorruptDataError, match="offsets 2 to 3"):
        view.aborted(0, 2)


def test_the_ends_of_epochs_are_those_that_a_leader_answers() -> None:
    lineage = LeaderEpochs.of([(2, 10), (5, 20), (6, 30)])
    answers = {0: (0, 10), 2: (2, 20), 3: (2, 20), 5: (5, 30), 6: (6, 44), 7: None}
    for epoch, expected in answers.items():
        found = lineage.end_of(epoch, 44)
        assert found == (None if expected is None else EpochEntry(*expected))
    assert LeaderEpochs().end_of(0, 44) is None


class TestSmall:
    """A log of forty records in batches of five, in a tier that has three segments."""

    @pytest.fixture
    def tier(self, tmp_path: Path) -> Path:
        """Push all but the active segment."""
        target = tmp_path / "tier"
        push_all(source_of(small(tmp_path / "log").parent), _opened(target))
        return target

    @pytest.mark.parametrize("offset", [-1, 31])
    def test_an_offset_outside_the_log_is_an_error(
        self, tier: Path, purgatory: FetchPurgatory, offset: int
    ) -> None:
        view = _view(_opened(tier), partition_of(), purgatory)
        with pytest.raises(OffsetOutOfRangeError, match=r"\[0, 30\)"):
            view.read(offset, 1)
        with pytest.raises(OffsetOutOfRangeError):
            view.aborted(offset, 100)

    def test_at_the_end_and_at_the_bound_there_is_nothing(
        self, tier: Path, purgatory: FetchPurgatory
    ) -> None:
        view = _view(_opened(tier), partition_of(), purgatory)
        assert view.read(30, 1) == RawBatches((), 30, is_transactional=False)
        assert view.read(7, 1, below=7) == RawBatches((), 7, is_transactional=False)
        assert view.read(5, 1, below=9) == RawBatches((), 5, is_transactional=False)
        assert view.read(5, 1 << 20, below=14).next_offset == 10

    def test_a_first_batch_that_is_too_large_may_be_left_out(
        self, tier: Path, purgatory: FetchPurgatory
    ) -> None:
        view = _view(_opened(tier), partition_of(), purgatory)
        (first,) = view.read(0, 1).parts
        for size, reached in ((len(first) - 1, 0), (len(first), 5)):
            found = view.read(0, size, min_one_message=False)
            assert found.next_offset == reached
            assert found.size == (len(first) if reached else 0)

    def test_a_damaged_batch_hides_none_before_it(
        self, tier: Path, purgatory: FetchPurgatory
    ) -> None:
        middle = sorted(tier.rglob("*.segment"))[1]
        data = bytearray(middle.read_bytes())
        second = 12 + int.from_bytes(data[8:12])
        data[second + 70] ^= 1
        whole = middle.read_bytes()
        middle.write_bytes(data)
        view = _view(_opened(tier), partition_of(), purgatory)
        assert view.read(0, 1 << 20).next_offset == 15
        for _ in range(2):
            with pytest.raises(CorruptDataError, match=middle.stem[-22:]):
                view.read(15, 1)
        assert view.read(20, 1 << 20).next_offset == 30
        middle.write_bytes(whole)  # it was mended
        assert view.read(15, 1).next_offset == 20

    def test_what_follows_a_gap_is_read_and_the_gap_is_an_error(
        self, tier: Path, purgatory: FetchPurgatory
    ) -> None:
        sorted(tier.rglob("*.segment"))[1].unlink()
        view = _view(_opened(tier), partition_of(), purgatory)
        assert view.read(0, 1 << 20).next_offset == 10
        for _ in range(2):
            with pytest.raises(CorruptDataError, match="offsets 10 to 19"):
                view.read(10, 1)
        assert view.read(20, 1 << 20).next_offset == 30

    def test_a_segment_that_was_deleted_is_an_error(
        self, tier: Path, purgatory: FetchPurgatory
    ) -> None:
        view = _view(_opened(tier), partition_of(), purgatory)
        sorted(tier.rglob("*.segment"))[1].unlink()
        assert view.read(0, 1).next_offset == 5
        with pytest.raises(NotFoundError):
            view.read(10, 1)

    def test_readers_share_the_blocks_of_the_log(
        self, tier: Path, purgatory: FetchPurgatory
    ) -> None:
        counter, blocks = RequestCounter(), LogBlocks()
        storage = SingleObject(ObjectStore(str(tier), observer=counter))
        view = _view(storage, partition_of(), purgatory, blocks)
        before = counter.requests
        first = _read_all(view, 0, 1)
        assert _read_all(view, 0, 1) == first
        assert counter.requests - before == 3  # a block of each segment
        another = _view(storage, partition_of(), purgatory, blocks)
        before = counter.requests
        assert _read_all(another, 0, 1) == first
        assert counter.requests == before

    def test_its_age_grows_with_the_clock(
        self, tier: Path, purgatory: FetchPurgatory
    ) -> None:
        storage, now = _opened(tier), [5.0]
        reader = TieredReader(storage, SegmentCatalog(storage), partition_of())
        blocks = BlockReader(storage, LogBlocks(), purgatory)
        view = PartitionView(reader, reader.segments(), blocks, lambda: now[0])
        now[0] = 7.5
        assert view.age == 2.5
        assert repr(view) == f"PartitionView('{partition_of()}', [0, 30))"


def _opened(folder: Path) -> SingleObject:
    return SingleObject(ObjectStore(str(folder)))


class _Expecting(StorageWrapper):
    """A storage that has the second block once the whole window after it is asked for.

    Attributes:
        expected: The block that is asked for last.
    """

    def __init__(self, inner: RemoteStorageManager, expected: int) -> None:
        super().__init__(inner)
        self.expected = expected
        self._is_asked = threading.Event()

    def fetch_log_ahead(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Wait for the last block of the window, and fetch."""
        if start >= self.expected:
            self._is_asked.set()
        if start == SMALL_BLOCK and not self._is_asked.wait(WAIT_SECONDS):
            raise AssertionError(f"nothing asked for byte {self.expected}")
        return self.inner.fetch_log_ahead(metadata, start, end, layout=layout)


def test_a_block_is_waited_for_when_the_window_after_it_is_asked_for(
    tmp_path: Path, purgatory: FetchPurgatory
) -> None:
    _, log = _even_log(tmp_path)
    (partition,) = log.list_partitions()
    storage, window = _Expecting(log, 3 * SMALL_BLOCK), 2
    reader = TieredReader(storage, SegmentCatalog(storage), partition)
    blocks = BlockReader(
        storage, LogBlocks(), purgatory, block_bytes=SMALL_BLOCK, window=window
    )
    view = PartitionView(reader, reader.segments(), blocks)
    found = view.read(0, SMALL_BLOCK + BATCH_BYTES)  # begins before the second block
    assert found.size == SMALL_BLOCK + BATCH_BYTES


def test_what_is_stored_before_a_segment_that_is_gone_is_read_first(
    tmp_path: Path, purgatory: FetchPurgatory
) -> None:
    starts = (0, 20, 40)
    logs = {start: log_of(start, 20) for start in starts} | {60: b""}
    storage = SingleObject(ObjectStore(f"memory://view-{uuid.uuid4().hex}"))
    push_all(source_of(write_log(tmp_path, logs).parent), storage)
    (partition,) = storage.list_partitions()
    view = _view(storage, partition, purgatory)
    storage.delete_log_segment(storage.list_segments(partition)[1])
    found = view.read(0, 1 << 20)
    assert (found.parts, found.next_offset) == ((logs[0],), 20)
    with pytest.raises(NotFoundError):
        view.read(20, 1 << 20)


def test_a_log_that_a_cleaner_has_replaced_is_not_read_on(
    tmp_path: Path, purgatory: FetchPurgatory
) -> None:
    folder, storage = _even_log(tmp_path)
    (partition,) = storage.list_partitions()
    view = _view(storage, partition, purgatory)
    found = view.read(0, SMALL_BLOCK)
    _clean(folder)
    with pytest.raises(StorageUnavailableError, match="is replacing this segment"):
        _read_all(view, found.next_offset, SMALL_BLOCK)
    again = _read_all(_view(storage, partition, purgatory), 0, SMALL_BLOCK)
    assert [row["offset"] for row in _decoded(again, 0)] == [*KEPT, COUNT]


@pytest.mark.parametrize("way", ["partition", "fair", "gradual"])
def test_a_scan_that_a_cleaner_ends_has_read_what_it_says(
    tmp_path: Path, way: str
) -> None:
    folder, storage = _even_log(tmp_path)
    scan = topic_of(storage).scan(order="fair" if way == "fair" else "partition")
    batches = scan.read_gradually(100) if way == "gradual" else iter(scan)
    offsets = next(batches)["offset"].to_pylist()
    _clean(folder)

    def read_on() -> None:
        for records in batches:
            offsets.extend(records["offset"].to_pylist())

    with pytest.raises(StorageUnavailableError, match="was read up to") as failure:
        read_on()
    reached = int(str(failure.value).rpartition(" ")[2])
    rest = topic_of(storage).scan(start=reached).to_table()["offset"].to_pylist()
    assert set(KEPT) <= {*offsets, *rest}
    assert len(offsets) + len(rest) == len({*offsets, *rest})


COUNT = 4000
KEPT = [offset for offset in range(COUNT) if offset % 2 == 0 or offset >= COUNT // 2]
BATCH_BYTES = 128


def _batch(offset: int) -> bytes:
    """Encode a batch of one record, as large as any other."""
    found = encode_batch([WireRecord(offset, 1, None, bytes(59))])
    assert len(found) == BATCH_BYTES
    return found


def _even_log(folder: Path) -> tuple[Path, RemoteStorageManager]:
    """Write a log of batches of one size, and return its folder and a reader of it."""
    logs = {0: b"".join(map(_batch, range(COUNT))), COUNT: _batch(COUNT)}
    written = write_log(folder, logs)
    options = Options(fetch_bytes=1 << 16, output_batch_bytes=1 << 16)
    return written, KafkaLog(ObjectStore(str(written.parent), options=options))


def _clean(folder: Path) -> None:
    """Remove records as a broker's cleaner does: by another file of that name."""
    cleaned = folder / "cleaned"
    cleaned.write_bytes(b"".join(map(_batch, KEPT)))
    cleaned.replace(folder / f"{0:020d}.log")
