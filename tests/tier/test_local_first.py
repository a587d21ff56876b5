"""A broker's log directory is read first, and its tier where the directory ends."""

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tieredfs
from support.kafka_data import KAFKA, LOCAL, REMOTE
from support.log_directories import log_of, partition_of, push_all, source_of, write_log
from tieredfs import (
    CorruptDataError,
    NotFoundError,
    ObjectStore,
    RequestEvent,
    SegmentMetadata,
    Tier,
    Topic,
    UnsupportedOperationError,
)
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.local_first import LocalFirst
from tieredfs.storage.layouts.single_object.layout import SingleObject

STARTS = range(0, 60, 10)
RECORDS = list(range(60))


class Watch:
    """Keeps the keys that were asked for."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def on_request(self, event: RequestEvent) -> None:
        self.keys.append(event.key)

    def logs(self) -> list[str]:
        """Those of reads of a segment, not of listings."""
        return [key for key in self.keys if key.endswith(".segment")]


class Broker:
    """A log directory, and the tier to which its closed segments are copied."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "log"
        self.tier = root / "tier"
        self.watch = Watch()
        write_log(self.folder, {start: log_of(start) for start in STARTS})
        push_all(source_of(self.folder), self.storage())

    def storage(self) -> SingleObject:
        return SingleObject(ObjectStore(str(self.tier), observer=self.watch))

    def expire(self, start: int) -> None:
        """Delete a segment from the directory, as the broker does."""
        for file in (self.folder / "t-0").glob(f"{start:020d}.*"):
            file.unlink()

    def topic(self, change: Callable[[], object] = lambda: None) -> Topic:
        """Open the topic; ``change`` is made when the directory has been listed."""

        class Changing(KafkaLog):
            def list_segments(
                self, partition: tieredfs.TopicIdPartition, min_offset: int = 0
            ) -> list[SegmentMetadata]:
                try:
                    return super().list_segments(partition, min_offset)
                finally:
                    change()

        local = Changing(ObjectStore(str(self.folder)))
        return Tier(LocalFirst(self.storage(), local)).topic("t")


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def offsets(table: pa.Table) -> list[int]:
    found: list[int] = table["offset"].to_pylist()
    return found


def test_what_the_directory_holds_is_not_asked_of_the_tier(broker: Broker) -> None:
    for start in (0, 10):
        broker.expire(start)
    topic = broker.topic()
    broker.watch.keys.clear()
    assert offsets(topic.scan().to_table()) == RECORDS
    assert {key[21:41] for key in map(_name, broker.watch.logs())} == {
        f"{start:020d}" for start in (0, 10)
    }
    assert topic.beginning_offsets() == {0: 0}
    assert topic.end_offsets() == {0: 60}


def _name(key: str) -> str:
    return key.rpartition("/")[2]


@pytest.mark.parametrize("offset", [0, 9, 10, 25, 30, 49, 50, 59])
def test_a_read_at_any_offset_is_that_of_one_log(broker: Broker, offset: int) -> None:
    for start in (0, 10, 20):
        broker.expire(start)
    found = broker.topic().read(0, offset, max_bytes=1)
    assert offsets(found.records)[0] == offset
    assert offsets(broker.topic().scan(start=offset).to_table()) == RECORDS[offset:]


def test_a_segment_that_the_broker_deletes_after_it_was_listed_is_read_from_the_tier(
    broker: Broker,
) -> None:
    topic = broker.topic()
    scan = topic.scan()
    broker.expire(0)
    broker.expire(30)
    assert offsets(scan.to_table()) == RECORDS
    assert broker.watch.logs()


def test_a_segment_that_is_deleted_between_the_two_listings_is_not_missed(
    broker: Broker,
) -> None:
    topic = broker.topic(lambda: broker.expire(20))
    assert offsets(topic.scan().to_table()) == RECORDS


def test_an_active_segment_that_is_rolled_tiered_and_deleted_is_read_from_the_tier(
    broker: Broker,
) -> None:
    scan = broker.topic().scan()
    grown = {50: log_of(50) + log_of(60), 70: b""}
    write_log(broker.folder, grown)
    push_all(source_of(broker.folder), broker.storage())
    for start in STARTS:
        broker.expire(start)
    assert offsets(scan.to_table()) == RECORDS


def test_a_folder_in_which_no_log_is_left_hides_nothing(broker: Broker) -> None:
    for start in STARTS:
        broker.expire(start)
    assert offsets(broker.topic().scan().to_table()) == RECORDS[:50]
    assert broker.topic().end_offsets() == {0: 50}


def test_a_directory_without_epochs_hides_nothing(broker: Broker) -> None:
    for start in (0, 10):
        broker.expire(start)
    (broker.folder / "t-0" / "leader-epoch-checkpoint").unlink()
    assert offsets(broker.topic().scan().to_table()) == RECORDS


def test_a_local_log_that_lost_its_end_is_an_error_as_without_a_tier(
    broker: Broker,
) -> None:
    log = broker.folder / "t-0" / f"{20:020d}.log"
    log.write_bytes(log_of(20, 5))
    with pytest.raises(CorruptDataError, match="ends before offset 25"):
        broker.topic().scan().to_table()


def test_a_segment_that_is_in_neither_is_an_error(broker: Broker) -> None:
    scan = broker.topic().scan()
    broker.expire(0)
    shutil.rmtree(broker.tier)
    with pytest.raises(NotFoundError, match="nor a copy"):
        scan.to_table()


def test_a_directory_that_fell_behind_hides_nothing_of_a_later_leader(
    tmp_path: Path,
) -> None:
    broker = Broker(tmp_path)
    later = log_of(50, epoch=1) + log_of(60, epoch=1)
    ahead = tmp_path / "ahead"
    write_log(
        ahead,
        {**{start: log_of(start) for start in STARTS[:-1]}, 50: later, 70: b""},
        epochs=[(0, 0), (1, 50)],
    )
    push_all(source_of(ahead), broker.storage())
    assert broker.topic().end_offsets() == {0: 70}
    found = broker.topic().scan().to_table()
    assert offsets(found) == list(range(70))


def test_a_topic_may_be_in_one_of_both_only(broker: Broker) -> None:
    shutil.rmtree(broker.folder)
    broker.folder.mkdir()
    assert offsets(broker.topic().scan().to_table()) == RECORDS[:50]
    write_log(broker.folder, {0: log_of(0)}, partition="u-0")
    local = KafkaLog(ObjectStore(str(broker.folder)))
    other = Tier(LocalFirst(broker.storage(), local)).topic("u")
    assert offsets(other.scan().to_table()) == RECORDS[:10]


def test_it_is_read_only_and_pickled_with_both(broker: Broker) -> None:
    topic = broker.topic()
    (segment, *_) = topic.reader(0).storage.list_segments(partition_of())
    storage = topic.reader(0).storage
    with pytest.raises(UnsupportedOperationError, match="log directory"):
        storage.delete_log_segment(segment)
    with pytest.raises(UnsupportedOperationError):
        topic.append(pa.table({"value": [b"v"]}))
    local = KafkaLog(ObjectStore(str(broker.folder)))
    scan = Tier(LocalFirst(broker.storage(), local)).topic("t").scan()
    copied = pickle.loads(pickle.dumps(scan))  # noqa: S301 - ours
    assert offsets(copied.to_table()) == RECORDS


@pytest.mark.parametrize("name", ["plain", "epochs"])
def test_a_real_broker_s_log_is_read_with_its_tier(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    shutil.copytree(KAFKA / name / LOCAL, folder)
    url = KAFKA / name / REMOTE
    whole = tieredfs.open_tier(url).topic(name)
    expected = whole.scan(isolation="read_committed").to_table()
    (partition,) = folder.glob(f"{name}-*")
    starts = sorted(file.stem for file in partition.glob("*.log"))
    for gone in (0, len(starts) // 2):
        for start in starts[:gone]:
            for file in partition.glob(f"{start}.*"):
                file.unlink()
        topic = tieredfs.open_tier(url, local=folder).topic(name)
        assert topic.scan(isolation="read_committed").to_table() == expected
        assert topic.end_offsets() == whole.end_offsets()


def test_a_log_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="log directory"):
        tieredfs.open_tier(KAFKA / "plain" / REMOTE, local=tmp_path / "nowhere")
