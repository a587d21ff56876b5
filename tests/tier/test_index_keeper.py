"""A plan fetches each index of a segment once, whatever it asks for together."""

from collections.abc import Sequence
from importlib.resources import files

import pytest

from support.events import Events
from tieredfs import IndexType, ObjectStore, SegmentMetadata, open_storage
from tieredfs.log.planning.index_keeper import IndexKeeper
from tieredfs.storage import RemoteStorageManager

ASKED: tuple[Sequence[IndexType], ...] = (
    [IndexType.OFFSET],
    [IndexType.OFFSET, IndexType.TIMESTAMP],
    [IndexType.LEADER_EPOCH],
    [IndexType.OFFSET],
)


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def storage(events: Events) -> RemoteStorageManager:
    """The storage of a broker, whose indexes are objects of their own."""
    url = str(files("tieredfs") / "demo_data")
    return open_storage(ObjectStore(url, observer=events), "kafka-local")


@pytest.fixture
def segment(storage: RemoteStorageManager, events: Events) -> SegmentMetadata:
    found = storage.list_segments(storage.list_partitions()[0])[0]
    events.clear()
    return found


def test_an_index_that_was_fetched_with_others_is_not_fetched_again(
    storage: RemoteStorageManager, segment: SegmentMetadata, events: Events
) -> None:
    keeper = IndexKeeper(storage)
    for kinds in ASKED:
        keeper.fetch_indexes(segment, kinds)
    assert events.by_verb() == {"get": 3}


def test_what_is_kept_is_what_the_storage_returns(
    storage: RemoteStorageManager, segment: SegmentMetadata
) -> None:
    keeper = IndexKeeper(storage)
    for kinds in ASKED:
        found = keeper.fetch_indexes(segment, kinds)
        assert found == storage.fetch_indexes(segment, kinds)
