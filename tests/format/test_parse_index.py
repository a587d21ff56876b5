"""An index of any type is parsed by one function, which names its segment in errors."""

import struct

import pytest

from support.kafka_data import KAFKA
from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import CorruptIndexError
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.parse import parse_index
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.format.index.time import TimeIndex
from tieredfs.format.index.txn import TransactionIndex
from tieredfs.model import IndexType
from tieredfs.storage.layouts.kafka_files import SUFFIXES

_EXPECTED = {
    IndexType.OFFSET: (OffsetIndex, "offset index"),
    IndexType.TIMESTAMP: (TimeIndex, "time index"),
    IndexType.PRODUCER_SNAPSHOT: (ProducerSnapshot, "producer snapshot"),
    IndexType.LEADER_EPOCH: (LeaderEpochs, "leader-epoch checkpoint"),
    IndexType.TRANSACTION: (TransactionIndex, "transaction index"),
}


@pytest.mark.parametrize("kind", IndexType)
def test_indexes_that_a_broker_tiered_are_parsed_by_their_type(kind: IndexType) -> None:
    paths = list(KAFKA.glob(f"*/kafka-tiered-storage/*/*.{SUFFIXES[kind]}"))
    assert paths
    for path in paths:
        found = parse_index(kind, path.read_bytes(), int(path.name[:20]), None, None)
        assert type(found) is _EXPECTED[kind][0]


@pytest.mark.parametrize("kind", IndexType)
def test_an_error_names_the_segment_and_the_index(kind: IndexType) -> None:
    damaged, noun = b"\xff" * 7, _EXPECTED[kind][1]
    with pytest.raises(CorruptIndexError, match=f"^memory://x: {noun}: "):
        parse_index(kind, damaged, 0, 9, 100, "memory://x")
    with pytest.raises(CorruptIndexError, match=f"^{noun}: "):
        parse_index(kind, damaged, 0, 9, 100)


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        (IndexType.OFFSET, struct.pack(">ii", 10, 50), "offset 10 is past"),
        (IndexType.OFFSET, struct.pack(">ii", 9, 100), "position 100 is past"),
        (IndexType.TIMESTAMP, struct.pack(">qi", 1, 10), "offset 10 is past"),
    ],
)
def test_an_entry_outside_the_segment_is_corrupt(
    kind: IndexType, data: bytes, message: str
) -> None:
    with pytest.raises(CorruptIndexError, match=message):
        parse_index(kind, data, 0, 9, 100)
    parse_index(kind, data, 0, None, None)
