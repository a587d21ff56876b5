import struct
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import assume, given

from support.golden import header_of, log_batches
from support.kafka_data import KAFKA
from tieredfs import IndexType, ObjectStore, open_storage
from tieredfs.format.batch.control import (
    ControlRecord,
    ControlType,
    parse_control_record,
)
from tieredfs.format.batch.header import CONTROL, TRANSACTIONAL, BatchHeader
from tieredfs.format.batch.table import LogBatches
from tieredfs.format.index.builder import IndexBuilder
from tieredfs.format.index.check import IndexCheck
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.producer_snapshot import ProducerSnapshot, ProducerState
from tieredfs.format.index.time import TimeIndex
from tieredfs.format.index.txn import AbortedTransaction, TransactionIndex
from tieredfs.format.records.decode import RecordDecoder

PLACES = sorted(
    [*KAFKA.glob("*/kafka-tiered-storage"), *KAFKA.glob("*/raw-log-dir")],
)


class Batch(NamedTuple):
    """The arguments that the check gets for a batch."""

    header: BatchHeader
    marker: ControlRecord | None = None


class Log(NamedTuple):
    """A segment's batches and its indexes."""

    name: str
    batches: tuple[Batch, ...]
    base: int
    end: int
    size: int
    indexes: Mapping[IndexType, bytes]

    def inconsistencies(
        self, changed: Mapping[IndexType, bytes] | None = None
    ) -> Mapping[IndexType, str]:
        """Return the inconsistencies after some indexes are replaced."""
        indexes = {**self.indexes, **(changed or {})}
        check = IndexCheck(indexes, self.base, self.end, self.size)
        for batch in self.batches:
            check.add(*batch)
        return check.finish()


@cache
def broker_logs() -> tuple[Log, ...]:
    """Read every segment that a broker wrote, finished or not."""
    return tuple(log for place in PLACES for log in _logs(place))


def _logs(place: Path) -> Iterable[Log]:
    storage = open_storage(ObjectStore(str(place)))
    for partition in storage.list_partitions():
        for listed in storage.list_segments(partition):
            segment = storage.describe(listed)
            assert segment.end_offset is not None
            size = segment.size or 0
            data = bytes(storage.fetch_log_segment(segment, 0, size))
            found = storage.fetch_all_indexes(segment)
            yield Log(
                f"{place.parent.name}: {segment}",
                tuple(Batch(header_of(b), marker(b)) for b in log_batches(data)),
                segment.start_offset,
                segment.end_offset,
                size,
                {kind: bytes(found[kind]) for kind in found},
            )


def marker(batch: LogBatches) -> ControlRecord | None:
    """Read the record of a control batch."""
    header = header_of(batch)
    if not header.is_control or not header.record_count:
        return None
    row = next(RecordDecoder("t", 0, ("key", "value")).decode([batch]))
    return parse_control_record(row["key"][0].as_py(), row["value"][0].as_py())


class TestBrokers:
    def test_every_index_of_every_segment_is_true(self) -> None:
        logs = broker_logs()
        assert {
            log.name: log.inconsistencies() for log in logs if log.inconsistencies()
        } == {}
        kinds = {kind for log in logs for kind in log.indexes}
        assert kinds == set(IndexType)
        assert len(logs) > 50

    def test_an_offset_entry_that_points_into_a_batch_is_found(self) -> None:
        damaged = 0
        for log in broker_logs():
            for offset, position in some(offset_entries(log)):
                damaged += 1
                changed = replaced(log, IndexType.OFFSET, ">ii", (offset, position))
                moved = changed(offset, position + 1)
                assert IndexType.OFFSET in log.inconsistencies(moved), log.name
        assert damaged > 50

    def test_an_offset_entry_that_points_to_a_later_batch_is_found(self) -> None:
        damaged = 0
        for log in broker_logs():
            places = [batch.header.position for batch in log.batches]
            after = dict(pairwise(places))
            for offset, position in some(offset_entries(log)):
                if position in after:
                    damaged += 1
                    changed = replaced(log, IndexType.OFFSET, ">ii", (offset, position))
                    moved = changed(offset, after[position])
                    assert IndexType.OFFSET in log.inconsistencies(moved), log.name
        assert damaged > 50

    def test_an_offset_entry_of_an_offset_at_which_no_batch_ends_is_found(
        self,
    ) -> None:
        damaged = 0
        for log in broker_logs():
            ends = {batch.header.last_offset - log.base for batch in log.batches}
            for offset, position in some(offset_entries(log)):
                changed = replaced(log, IndexType.OFFSET, ">ii", (offset, position))
                for other in {offset - 1, offset + 1} - ends:
                    damaged += 1
                    assert IndexType.OFFSET in log.inconsistencies(
                        changed(other, position)
                    )
        assert damaged > 50

    @pytest.mark.parametrize("by", [-1, 1])
    def test_a_time_entry_of_another_time_is_found(self, by: int) -> None:
        damaged = 0
        for log in broker_logs():
            for stamp, offset in some(time_entries(log)):
                damaged += 1
                changed = replaced(log, IndexType.TIMESTAMP, ">qi", (stamp, offset))
                assert IndexType.TIMESTAMP in log.inconsistencies(
                    changed(stamp + by, offset)
                )
        assert damaged > 50

    def test_a_time_entry_of_another_batch_is_found(self) -> None:
        damaged = 0
        for log in broker_logs():
            for stamp, offset in some(time_entries(log)):
                damaged += 1
                changed = replaced(log, IndexType.TIMESTAMP, ">qi", (stamp, offset))
                assert IndexType.TIMESTAMP in log.inconsistencies(
                    changed(stamp, offset + 1)
                )
        assert damaged > 50

    def test_an_abort_that_is_missing_or_made_up_is_found(self) -> None:
        damaged = 0
        for log in broker_logs():
            if is_compacted(log):
                continue  # the cleaner removes what was aborted before the abort
            aborts = aborts_of(log)
            for at, entry in enumerate(aborts):
                damaged += 1
                raised = entry._replace(last_offset=entry.last_offset + 1)
                foreign = entry._replace(producer_id=9**9)
                changes: list[tuple[AbortedTransaction, ...]] = [(raised,), (foreign,)]
                if entry.first_offset >= log.base:
                    changes.append(())  # one from before may have had no record
                for change in changes:
                    wrong = (*aborts[:at], *change, *aborts[at + 1 :])
                    found = log.inconsistencies(
                        {IndexType.TRANSACTION: TransactionIndex(wrong).encode()}
                    )
                    assert IndexType.TRANSACTION in found, log.name
        assert damaged > 5

    def test_an_abort_that_leaves_out_its_first_records_is_found(self) -> None:
        damaged = 0
        for log in broker_logs():
            if is_compacted(log):
                continue
            aborts = aborts_of(log)
            for at, entry in enumerate(aborts):
                last = entry.last_offset
                changes = [entry._replace(first_offset=last - 1)]
                if entry.last_stable_offset == last + 1:
                    changes.append(entry._replace(last_stable_offset=last))
                for wrong in changes:
                    if last - 1 in {batch.header.base_offset for batch in log.batches}:
                        continue  # it may be consistent
                    damaged += 1
                    changed = (*aborts[:at], wrong, *aborts[at + 1 :])
                    found = log.inconsistencies(
                        {IndexType.TRANSACTION: TransactionIndex(changed).encode()}
                    )
                    assert IndexType.TRANSACTION in found, (log.name, wrong)
        assert damaged > 5

    @pytest.mark.parametrize("by", [-1, 1])
    def test_a_producer_s_other_last_offset_is_found(self, by: int) -> None:
        damaged = 0
        for log in broker_logs():
            wrote = {b.header.producer_id for b in log.batches if not b.marker}
            if is_compacted(log):
                continue  # the cleaner may have removed what was written last
            snapshot = log.indexes.get(IndexType.PRODUCER_SNAPSHOT)
            producers = ProducerSnapshot.parse(snapshot).producers if snapshot else ()
            for at, state in enumerate(producers):
                if state.producer_id in wrote and state.last_offset >= 0:
                    damaged += 1
                    wrong = state._replace(last_offset=state.last_offset + by)
                    made = (*producers[:at], wrong, *producers[at + 1 :])
                    found = log.inconsistencies(
                        {IndexType.PRODUCER_SNAPSHOT: ProducerSnapshot(made).encode()}
                    )
                    assert IndexType.PRODUCER_SNAPSHOT in found, log.name
        assert damaged > 5

    def test_an_epoch_that_begins_elsewhere_is_found(self) -> None:
        damaged = 0
        for log in broker_logs():
            lines = log.indexes.get(IndexType.LEADER_EPOCH, b"").decode().splitlines()
            begins = {batch.header.base_offset for batch in log.batches}
            for at, line in enumerate(lines[3:], 3):  # not the first: see below
                epoch, start = map(int, line.split())
                if start not in begins or f"{epoch + 1} {start + 1}" in lines:
                    continue
                damaged += 1
                wrong = [*lines[:at], f"{epoch} {start + 1}", *lines[at + 1 :]]
                text = "".join(f"{one}\n" for one in wrong).encode()
                assert IndexType.LEADER_EPOCH in log.inconsistencies(
                    {IndexType.LEADER_EPOCH: text}
                )
        assert damaged

    def test_a_checkpoint_that_begins_behind_the_segment_is_found(self) -> None:
        for log in broker_logs():
            if IndexType.LEADER_EPOCH in log.indexes and log.batches:
                text = f"0\n1\n0 {log.end + 1}\n".encode()
                found = log.inconsistencies({IndexType.LEADER_EPOCH: text})
                assert IndexType.LEADER_EPOCH in found, log.name

    def test_indexes_cut_at_an_entry_are_true(self) -> None:
        """Such an index makes a reader begin earlier, and find the same."""
        for log in broker_logs():
            for kind, size in (
                (IndexType.OFFSET, OffsetIndex.ENTRY_SIZE),
                (IndexType.TIMESTAMP, TimeIndex.ENTRY_SIZE),
            ):
                assert (
                    log.inconsistencies({kind: log.indexes.get(kind, b"")[:-size]})
                    == {}
                )


def offset_entries(log: Log) -> list[tuple[int, int]]:
    return list(struct.iter_unpack(">ii", log.indexes.get(IndexType.OFFSET, b"")))


def time_entries(log: Log) -> list[tuple[int, int]]:
    return list(struct.iter_unpack(">qi", log.indexes.get(IndexType.TIMESTAMP, b"")))


def aborts_of(log: Log) -> tuple[AbortedTransaction, ...]:
    data = log.indexes.get(IndexType.TRANSACTION, b"")
    return TransactionIndex.parse(data, log.base).entries


def is_compacted(log: Log) -> bool:
    check = IndexCheck({}, log.base, log.end, log.size)
    for batch in log.batches:
        check.add(*batch)
    return check.is_compacted


def some(entries: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """Take the first, the middle and the last entry."""
    return {entries[at] for at in (0, len(entries) // 2, -1)} if entries else set()


class replaced(NamedTuple):  # noqa: N801 - reads as a verb where it is called
    """Replace one entry of an index."""

    log: Log
    kind: IndexType
    form: str
    entry: tuple[int, int]

    def __call__(self, first: int, second: int) -> dict[IndexType, bytes]:
        """Give the index with other numbers in the entry."""
        data = self.log.indexes[self.kind]
        old = struct.pack(self.form, *self.entry)
        assert data.count(old)
        return {self.kind: data.replace(old, struct.pack(self.form, first, second), 1)}


# Logs made by hand: only headers count.

BASE = 100


@st.composite
def logs(draw: st.DrawFn) -> tuple[Batch, ...]:
    """Draw the headers of a log, with holes and stamps that go back and forth."""
    sizes = draw(st.lists(st.integers(70, 9000), min_size=1, max_size=25))
    positions = [0, *accumulate(sizes)]
    offset = BASE
    found = []
    for position, size in zip(positions, sizes, strict=False):
        offset += draw(st.sampled_from([0, 0, 0, 1, 5]))
        last = offset + draw(st.integers(0, 3))
        stamp = draw(st.integers(-2, 40))
        found.append(Batch(header(position, size, offset, last, stamp)))
        offset = last + 1
    return tuple(found)


def header(
    position: int,
    size: int,
    base: int,
    last: int,
    stamp: int = 0,
    **fields: int,
) -> BatchHeader:
    values = {
        "leader_epoch": 0,
        "crc": 0,
        "attributes": 0,
        "base_timestamp": stamp,
        "max_timestamp": stamp,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "record_count": last - base + 1,
        **fields,
    }
    return BatchHeader(position, size, base, last, **values)


def made(batches: tuple[Batch, ...], indexes: Mapping[IndexType, bytes]) -> Log:
    last = batches[-1].header
    return Log("made", batches, BASE, last.last_offset, last.end, indexes)


@given(logs(), st.integers(1, 12_000))
def test_what_is_built_from_a_log_is_true(
    batches: tuple[Batch, ...], interval: int
) -> None:
    builder = IndexBuilder(BASE, interval_bytes=interval)
    for batch in batches:
        builder.add(batch.header)
    indexes = {
        IndexType.OFFSET: builder.offset_index(),
        IndexType.TIMESTAMP: builder.time_index(),
    }
    assert made(batches, indexes).inconsistencies() == {}


@given(logs(), st.data())
def test_a_true_offset_index_leads_past_no_record(
    batches: tuple[Batch, ...], data: st.DataObject
) -> None:
    lasts = [b.header.last_offset - BASE for b in batches]
    places = [b.header.position for b in batches[1:]]
    offsets = st.sampled_from(lasts) | st.integers(0, lasts[-1])
    positions = st.sampled_from([*places, 5]) | st.integers(1, batches[-1].header.end)
    drawn = data.draw(st.lists(st.tuples(offsets, positions), max_size=6))
    entries = list(
        zip(*(sorted(set(v)) for v in zip(*drawn, strict=True)), strict=False)
    )
    content = b"".join(struct.pack(">ii", *entry) for entry in entries)
    log = made(batches, {IndexType.OFFSET: content})
    assume(not log.inconsistencies())
    index = OffsetIndex.parse(content, BASE, end_offset=log.end, log_size=log.size)
    for batch, _ in batches:
        for offset in (batch.base_offset, batch.last_offset):
            assert index.lookup(offset).position <= batch.position
            end = index.end_position(offset + 1)
            assert end is None or end >= batch.end
    assert {int(p) for p in index.positions} <= set(places)


@given(logs(), st.data())
def test_a_true_time_index_leads_past_no_record(
    batches: tuple[Batch, ...], data: st.DataObject
) -> None:
    lasts = [b.header.last_offset - BASE for b in batches]
    stamps = st.sampled_from([max(0, b.header.max_timestamp) for b in batches])
    drawn = data.draw(st.lists(st.tuples(stamps, st.sampled_from(lasts)), max_size=5))
    entries = list(
        zip(*(sorted(set(v)) for v in zip(*drawn, strict=True)), strict=False)
    )
    content = b"".join(struct.pack(">qi", *entry) for entry in entries)
    log = made(batches, {IndexType.TIMESTAMP: content})
    assume(not log.inconsistencies())
    index = TimeIndex.parse(content, BASE, end_offset=log.end)
    for stamp in range(42):
        first = index.lookup(stamp).offset
        for batch, _ in batches:
            if batch.last_offset < first:
                assert batch.max_timestamp < stamp


class TestTransactions:
    """A producer 7 writes [100, 104], and a marker at 105 ends it."""

    def reported(
        self, *aborts: AbortedTransaction, kind: ControlType = ControlType.ABORT
    ) -> str | None:
        fields = {"producer_id": 7, "producer_epoch": 0}
        flags = {"attributes": TRANSACTIONAL}
        ends = {"attributes": TRANSACTIONAL | CONTROL}
        batches = (
            Batch(header(0, 100, 100, 104, **flags, **fields)),
            Batch(header(100, 80, 105, 105, **ends, **fields), ControlRecord(kind, 0)),
        )
        index = TransactionIndex(aborts).encode()
        log = made(batches, {IndexType.TRANSACTION: index})
        return log.inconsistencies().get(IndexType.TRANSACTION)

    def test_the_abort_of_the_log_is_consistent(self) -> None:
        assert self.reported(AbortedTransaction(7, 100, 105, 106)) is None

    def test_an_abort_that_began_before_the_segment_is_consistent(self) -> None:
        assert self.reported(AbortedTransaction(7, 90, 105, 95)) is None

    def test_no_abort_is_found(self) -> None:
        assert "it lacks" in str(self.reported())

    def test_an_abort_where_the_log_commits_is_found(self) -> None:
        entry = AbortedTransaction(7, 100, 105, 106)
        assert "that the log lacks" in str(
            self.reported(entry, kind=ControlType.COMMIT)
        )

    @pytest.mark.parametrize(
        "entry",
        [
            AbortedTransaction(7, 101, 105, 106),
            AbortedTransaction(7, 100, 105, 105),
            AbortedTransaction(7, 100, 104, 105),
            AbortedTransaction(8, 100, 105, 106),
            AbortedTransaction(7, 100, 106, 107),
        ],
    )
    def test_another_abort_is_found(self, entry: AbortedTransaction) -> None:
        assert self.reported(entry) is not None

    def test_an_abort_whose_records_the_cleaner_left_is_not_missing(self) -> None:
        fields = {"producer_id": 7, "producer_epoch": 0}
        ends = {"attributes": TRANSACTIONAL | CONTROL}
        end = header(100, 80, 105, 105, **ends, **fields)
        for count in (0, 1):
            wrote = header(0, 100, 102, 104, attributes=TRANSACTIONAL, **fields)
            batches = (
                Batch(wrote._replace(record_count=count)),
                Batch(end, ControlRecord(ControlType.ABORT, 0)),
            )
            found = made(batches, {}).inconsistencies()
            assert (IndexType.TRANSACTION in found) == bool(count)


def test_a_malformed_index_is_reported_before_a_batch_is_added() -> None:
    indexes = {
        IndexType.OFFSET: bytes(8),
        IndexType.TIMESTAMP: b"1",
        IndexType.TRANSACTION: bytes(34),
        IndexType.PRODUCER_SNAPSHOT: b"",
        IndexType.LEADER_EPOCH: b"1\n0\n",
    }
    check = IndexCheck(indexes, 0, 10, 1000)
    assert check.malformed.keys() == set(IndexType)
    assert check.finish().keys() == set(IndexType)


def test_an_index_that_is_not_there_is_not_inconsistent() -> None:
    assert made((Batch(header(0, 100, BASE, BASE)),), {}).inconsistencies() == {}


def test_a_producer_that_wrote_in_no_batch_cannot_be_judged() -> None:
    state = ProducerState(3, 0, 5, 50, 0, 1, -1, -1)
    snapshot = ProducerSnapshot((state,)).encode()
    batches = (Batch(header(0, 100, BASE, BASE)),)
    assert (
        made(batches, {IndexType.PRODUCER_SNAPSHOT: snapshot}).inconsistencies() == {}
    )
