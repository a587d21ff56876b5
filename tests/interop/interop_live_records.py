"""What a real broker sends is, as Arrow, what its log directory holds."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from interop.traffic import Traffic
from servers import Broker
from tieredfs import Follow, NotFoundError, ObjectStore, Tier, Topic, open_tier
from tieredfs.format.compression.codec import Codec
from tieredfs.log.read.last_records import LastRecords
from tieredfs.log.read.scan import Isolation
from tieredfs.storage.layouts.single_object.layout import SingleObject

_SECONDS = 60.0
_TOPICS = {
    "plain": (Codec.NONE, "CreateTime"),
    "zstd": (Codec.ZSTD, "LogAppendTime"),
}
_each_topic = pytest.mark.parametrize("name", _TOPICS)
_each_isolation = pytest.mark.parametrize(
    "isolation", ["read_uncommitted", "read_committed"]
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with records of all kinds, in transactions and outside of them."""
    with Broker(tmp_path_factory.mktemp("kafka")) as started:
        for name, (codec, timestamps) in _TOPICS.items():
            _create(started, name, {"message.timestamp.type": timestamps})
            Traffic(name, codec).produce(started.address)
        yield started


@_each_topic
@_each_isolation
def test_every_column_is_that_of_a_scan_of_the_log_directory(
    broker: Broker, name: str, isolation: Isolation
) -> None:
    scanned = _directory(broker, name).scan(isolation=isolation).to_table()
    with _live(broker, name).follow(
        bootstrap=broker.address, isolation=isolation
    ) as follow:
        found = _table(follow, scanned.num_rows)
    assert scanned.num_rows > 1000
    assert found.equals(scanned)


@_each_topic
@_each_isolation
def test_the_last_records_are_those_of_the_log_directory(
    broker: Broker, name: str, isolation: Isolation
) -> None:
    last = LastRecords(50)
    scanned = _directory(broker, name).scan(start=last, isolation=isolation).to_table()
    with _live(broker, name).follow(
        start=last, bootstrap=broker.address, isolation=isolation
    ) as follow:
        found = _table(follow, scanned.num_rows)
    assert scanned.num_rows == 50
    assert found.equals(scanned)


def test_a_time_is_looked_up_as_in_the_log_directory(broker: Broker) -> None:
    time = "2020-09-13T12:27:10Z"
    (expected,) = _directory(broker, "plain").scan(start=time).head(1)["offset"]
    live = _live(broker, "plain")
    with live.follow(start=time, bootstrap=broker.address) as follow:
        assert next(follow)["offset"][0] == expected
    assert expected.as_py() > 0


def test_a_topic_that_is_created_again_meanwhile_is_noticed(broker: Broker) -> None:
    _create(broker, "again", {})
    Traffic("again", Codec.NONE).produce(broker.address)
    admin = AdminClient({"bootstrap.servers": broker.address})
    with _live(broker, "again").follow(bootstrap=broker.address) as follow:
        next(follow)
        for deleted in admin.delete_topics(["again"]).values():
            deleted.result(_SECONDS)
        _create(broker, "again", {})
        with pytest.raises(NotFoundError, match="deleted and created again"):
            list(follow)


def _create(broker: Broker, name: str, config: dict[str, str]) -> None:
    """Create a topic whose records stay, however old they are."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    config = {"retention.ms": "-1", **config}
    for made in admin.create_topics([NewTopic(name, 1, 1, config=config)]).values():
        made.result(_SECONDS)


def _directory(broker: Broker, name: str) -> Topic:
    return open_tier(str(broker.logs)).topic(name)


def _live(broker: Broker, name: str) -> Topic:
    """Return the topic in a tier that holds nothing of it yet."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    asked = admin.describe_topics(TopicCollection([name]))[name]
    topic_id = str(asked.result(_SECONDS).topic_id).translate(str.maketrans("+/", "-_"))
    tier = Tier(SingleObject(ObjectStore(f"memory://live-{topic_id}")))
    return tier.create_topic(name, topic_id=topic_id)


def _table(follow: Follow, rows: int) -> pa.Table:
    """Return the first records of a topic."""
    found: list[pa.RecordBatch] = []
    while sum(map(len, found)) < rows:
        found.append(next(follow))
    return pa.Table.from_batches(found)
