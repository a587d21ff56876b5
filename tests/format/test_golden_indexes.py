"""Indexes, snapshots and checkpoints of real brokers, against Kafka's own classes."""

import itertools

import pytest

from support.golden import Golden, goldens, headers_of
from support.kafka_data import KAFKA
from tieredfs.errors import CorruptIndexError
from tieredfs.format.index.leader_epochs import (
    format_leader_epochs,
    parse_leader_epochs,
)
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.padding import without_padding
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.format.index.time import TimeIndex
from tieredfs.format.index.txn import TransactionIndex

_OFFSET = goldens(".index.expected.json")
_TIME = goldens(".timeindex.expected.json")
_TXN = goldens(".txnindex.expected.json")
_SNAPSHOTS = goldens(".snapshot.expected.json")
_CHECKPOINTS = goldens("leader?epoch?checkpoint.expected.json")


def _offset_index(golden: Golden) -> OffsetIndex:
    data = without_padding(golden.read(), OffsetIndex.ENTRY_SIZE)
    log = golden.source.with_suffix(".log")
    base = golden.document()["baseOffset"]
    return OffsetIndex.parse(data, base, log_size=log.stat().st_size)


def _time_index(golden: Golden) -> TimeIndex:
    data = without_padding(golden.read(), TimeIndex.ENTRY_SIZE)
    return TimeIndex.parse(data, golden.document()["baseOffset"])


def _offset_or_none(offset: int) -> int | None:
    return None if offset == -1 else offset


def _padded(found: list[Golden]) -> list[Golden]:
    padded = [golden for golden in found if golden.document()["paddingEntries"]]
    assert padded, "no padded index in the sample data"
    return padded


@pytest.mark.parametrize("golden", _OFFSET, ids=str)
def test_an_offset_index_has_the_entries_that_kafka_reads(golden: Golden) -> None:
    index = _offset_index(golden)
    found = [list(index.entry(number)) for number in range(len(index))]
    assert found == golden.document()["entries"]


@pytest.mark.parametrize("golden", _OFFSET, ids=str)
def test_an_offset_is_looked_up_as_kafka_does(golden: Golden) -> None:
    index = _offset_index(golden)
    lookups = golden.document()["lookups"]
    found = [[target, *index.lookup(target)] for target, _, _ in lookups]
    assert found == lookups


@pytest.mark.parametrize("golden", _OFFSET, ids=str)
def test_the_upper_bound_of_a_fetch_is_that_of_kafka(golden: Golden) -> None:
    index = _offset_index(golden)
    for offset, position, size, *upper in golden.document()["fetchUpperBound"]:
        found = index.upper_bound(position + size)
        assert list(found or (None, None)) == upper, (offset, position, size)


@pytest.mark.parametrize("golden", _OFFSET, ids=str)
def test_reading_from_a_lookup_finds_every_batch(golden: Golden) -> None:
    index = _offset_index(golden)
    headers = list(headers_of(golden.source.with_suffix(".log").read_bytes()))
    starts = {header.position for header in headers}
    for header in headers:
        for offset in {header.base_offset, header.last_offset}:
            position = index.lookup(offset).position
            assert position in starts
            assert position <= header.position


@pytest.mark.parametrize("golden", _OFFSET, ids=str)
def test_every_batch_below_an_end_has_ended_by_its_position(golden: Golden) -> None:
    index = _offset_index(golden)
    headers = list(headers_of(golden.source.with_suffix(".log").read_bytes()))
    ends = {header.base_offset for header in headers}
    ends |= {header.last_offset + 1 for header in headers}
    for end in sorted(ends):
        position = index.end_position(end)
        needed = max((h.end for h in headers if h.base_offset < end), default=0)
        assert position is None or position >= needed


@pytest.mark.parametrize("golden", _TIME, ids=str)
def test_a_time_index_has_the_entries_that_kafka_reads(golden: Golden) -> None:
    index = _time_index(golden)
    found = [list(index.entry(number)) for number in range(len(index))]
    assert found == golden.document()["entries"]


@pytest.mark.parametrize("golden", _TIME, ids=str)
def test_a_time_is_looked_up_as_kafka_does(golden: Golden) -> None:
    index = _time_index(golden)
    lookups = golden.document()["lookups"]
    assert [[target, *index.lookup(target)] for target, _, _ in lookups] == lookups


@pytest.mark.parametrize("golden", _padded(_OFFSET), ids=str)
def test_a_padded_offset_index_is_refused_until_it_is_cut(golden: Golden) -> None:
    base = golden.document()["baseOffset"]
    with pytest.raises(CorruptIndexError, match=r"^x\.index: relative offset 0 "):
        OffsetIndex.parse(golden.read(), base, name="x.index")
    assert len(_offset_index(golden)) == len(golden.document()["entries"])


@pytest.mark.parametrize("golden", _padded(_TIME), ids=str)
def test_a_padded_time_index_is_refused_until_it_is_cut(golden: Golden) -> None:
    base = golden.document()["baseOffset"]
    with pytest.raises(CorruptIndexError, match=r"^x\.timeindex: timestamp 0 "):
        TimeIndex.parse(golden.read(), base, name="x.timeindex")
    assert len(_time_index(golden)) == len(golden.document()["entries"])


@pytest.mark.parametrize("golden", [*_OFFSET, *_TIME], ids=str)
def test_an_index_without_padding_is_not_cut(golden: Golden) -> None:
    document, data = golden.document(), golden.read()
    size = len(data) // max(document["entriesInFile"], 1) or 1
    kept = len(data) - size * document["paddingEntries"]
    assert without_padding(data, size) == data[:kept]


@pytest.mark.parametrize("golden", _TXN, ids=str)
def test_a_transaction_index_has_the_entries_that_kafka_reads(golden: Golden) -> None:
    index = TransactionIndex.parse(golden.read(), golden.document()["baseOffset"])
    found = [
        {
            "version": 0,
            "producerId": entry.producer_id,
            "firstOffset": entry.first_offset,
            "lastOffset": entry.last_offset,
            "lastStableOffset": entry.last_stable_offset,
        }
        for entry in index.entries
    ]
    assert found == golden.document()["entries"]


@pytest.mark.parametrize("golden", _TXN, ids=str)
def test_aborted_transactions_are_collected_as_kafka_does(golden: Golden) -> None:
    index = TransactionIndex.parse(golden.read(), golden.document()["baseOffset"])
    for query in golden.document()["collect"]:
        found = index.collect(query["fetchOffset"], query["upperBoundOffset"])
        assert found.is_complete == query["isComplete"], query
        assert [list(entry[:3]) for entry in found.aborted] == query["aborted"], query


@pytest.mark.parametrize("golden", _SNAPSHOTS, ids=str)
def test_a_snapshot_has_the_producers_that_kafka_reads(golden: Golden) -> None:
    snapshot = ProducerSnapshot.parse(golden.read())
    found = [
        {
            "producerId": producer.producer_id,
            "producerEpoch": producer.producer_epoch,
            "lastSequence": producer.last_sequence,
            "lastDataOffset": producer.last_offset,
            "firstDataOffset": producer.last_offset - producer.offset_delta,
            "lastTimestamp": producer.last_timestamp,
            "coordinatorEpoch": producer.coordinator_epoch,
            "currentTxnFirstOffset": _offset_or_none(producer.transaction_first_offset),
        }
        for producer in snapshot.producers
    ]
    assert found == golden.document()["entries"]


def test_some_snapshot_of_the_sample_data_has_an_open_transaction() -> None:
    snapshots = [ProducerSnapshot.parse(golden.read()) for golden in _SNAPSHOTS]
    producers = [one for snapshot in snapshots for one in snapshot.producers]
    assert any(producer.transaction_first_offset >= 0 for producer in producers)


@pytest.mark.parametrize("golden", _CHECKPOINTS, ids=str)
def test_a_checkpoint_has_the_epochs_that_kafka_reads(golden: Golden) -> None:
    epochs = parse_leader_epochs(golden.read())
    assert [list(entry) for entry in epochs.entries] == golden.document()["entries"]


@pytest.mark.parametrize("golden", _CHECKPOINTS, ids=str)
def test_a_checkpoint_is_written_as_kafka_writes_it(golden: Golden) -> None:
    assert format_leader_epochs(parse_leader_epochs(golden.read())) == golden.read()


def test_the_checkpoint_gives_every_batch_its_own_epoch() -> None:
    folder = KAFKA / "epochs" / "raw-log-dir" / "epochs-0"
    epochs = parse_leader_epochs((folder / "leader-epoch-checkpoint").read_bytes())
    logs = (log.read_bytes() for log in sorted(folder.glob("*.log")))
    for header in itertools.chain.from_iterable(map(headers_of, logs)):
        assert epochs.epoch_at(header.base_offset) == header.leader_epoch
        assert epochs.accepts(header.leader_epoch, header.last_offset)
