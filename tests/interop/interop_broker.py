"""A real broker reads what we wrote.

Topics are tiered until nothing of them is left on the broker's own disk. Then every
file of the tier is written anew by us, the records compressed in another way, and the
broker, started again, is asked what it was asked before.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from cli.commands import Outcome, run_process
from interop.answers import Answers, ask
from interop.rewriting import rewrite, timestamps_of
from interop.traffic import Traffic
from servers import Broker
from support.golden import headers_of
from tieredfs import ObjectStore
from tieredfs.format.compression.codec import Codec
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.model import TopicIdPartition
from tieredfs.storage.layouts.kafka_local import KafkaLocal

_SECONDS = 120
_EVERY = 7
"""Times are asked for around every seventh record's."""

_TOPIC = {
    "remote.storage.enable": "true",
    "retention.ms": "-1",
    "local.retention.ms": "1000",
    "file.delete.delay.ms": "100",
    "index.interval.bytes": "256",
    "internal.segment.bytes": "32768",
}


@dataclass(frozen=True, slots=True)
class _Case:
    """A topic: how its records were compressed, and how they are afterwards."""

    before: Codec
    after: Codec
    timestamp_type: str = "CreateTime"

    @property
    def topic(self) -> str:
        names = self.before.name, self.after.name, self.timestamp_type
        return ".".join(names).lower()


# A broker keeps the size of each log in a topic of its own, and asks for nothing behind
# it: what is written anew must not be larger.
_CASES = [
    _Case(Codec.NONE, Codec.GZIP),
    _Case(Codec.NONE, Codec.SNAPPY),
    _Case(Codec.NONE, Codec.LZ4),
    _Case(Codec.NONE, Codec.ZSTD),
    _Case(Codec.NONE, Codec.ZSTD, "LogAppendTime"),
    _Case(Codec.SNAPPY, Codec.GZIP),
]
_each_topic = pytest.mark.parametrize("case", _CASES, ids=lambda case: case.topic)


@dataclass(frozen=True, slots=True)
class _Tier:
    """The tier at one time: what it holds, and what is said of it.

    Attributes:
        answers: What the broker answers, by topic.
        files: Every file of the tier with its bytes, by its name in the tier.
        verified: How ``tieredfs verify --deep`` ended.
    """

    answers: dict[str, Answers]
    files: dict[str, bytes]
    verified: Outcome

    def named(self, suffix: str, prefix: str = "") -> dict[str, bytes]:
        """Return the files whose names end and begin in this way."""
        return {
            name: data
            for name, data in self.files.items()
            if name.endswith(suffix) and name.startswith(prefix)
        }


@dataclass(frozen=True, slots=True)
class _Story:
    """What happened.

    Attributes:
        traffic: What was produced, by topic.
        theirs: The tier as the broker wrote it.
        ours: The tier as we wrote it anew.
        cached: Indexes that the broker has taken from it, by name of the file.
    """

    traffic: dict[str, Traffic]
    theirs: _Tier
    ours: _Tier
    cached: dict[str, bytes]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> _Story:
    """Tier every topic, ask, write the tier anew, and ask again."""
    broker = Broker(tmp_path_factory.mktemp("kafka"))
    traffic = {case.topic: Traffic(case.topic, case.before) for case in _CASES}
    with broker:
        _create_topics(broker)
        _tier(broker, traffic)
        broker.stop()  # another leader epoch, other epochs of the producers
        broker.start()
        _tier(broker, traffic)
        storage = KafkaLocal(ObjectStore(str(broker.tier)))
        partitions = {p.topic: p for p in storage.list_partitions()}
        times = {topic: _times(storage, partitions[topic]) for topic in traffic}
        answers = {topic: ask(broker.address, topic, times[topic]) for topic in traffic}
        broker.stop()
        theirs = _Tier(answers, _files(broker.tier), _verify(broker))

        for case in _CASES:
            rewrite(storage, partitions[case.topic], case.after)
        for file in broker.index_cache.iterdir():
            file.unlink()
        verified = _verify(broker)

        broker.start()
        _await(lambda: all(_answers(broker, topic) for topic in traffic))
        answers = {topic: ask(broker.address, topic, times[topic]) for topic in traffic}
        assert all(_is_tiered(broker, topic) for topic in traffic)
        ours = _Tier(answers, _files(broker.tier), verified)
        cached = _files(broker.index_cache)
        broker.stop()
    return _Story(traffic, theirs, ours, cached)


@_each_topic
def test_every_record_of_every_transaction_is_consumed_as_before(
    story: _Story, case: _Case
) -> None:
    before = story.theirs.answers[case.topic].uncommitted
    traffic = story.traffic[case.topic]
    assert len(before) == traffic.committed + traffic.aborted
    assert story.ours.answers[case.topic].uncommitted == before


@_each_topic
def test_every_committed_record_is_consumed_as_before(
    story: _Story, case: _Case
) -> None:
    before = story.theirs.answers[case.topic].committed
    assert len(before) == story.traffic[case.topic].committed
    assert story.ours.answers[case.topic].committed == before


@_each_topic
def test_offsets_for_times_are_as_before(story: _Story, case: _Case) -> None:
    before = story.theirs.answers[case.topic].times
    assert len(set(before.values())) > 100
    assert story.ours.answers[case.topic].times == before


@_each_topic
def test_every_log_was_written_anew(story: _Story, case: _Case) -> None:
    before = story.theirs.named(".log", f"{case.topic}-0-")
    after = story.ours.named(".log", f"{case.topic}-0-")
    assert len(before) > 10
    assert before.keys() == after.keys()
    assert all(len(after[name]) <= len(before[name]) for name in before)
    headers = [header for log in after.values() for header in headers_of(log)]
    assert {h.codec for h in headers if not h.is_control} == {case.after}
    assert len({header.leader_epoch for header in headers}) == 2


def test_the_tier_has_the_files_that_it_had(story: _Story) -> None:
    assert story.ours.files.keys() == story.theirs.files.keys()


@pytest.mark.parametrize("suffix", [".leader_epoch_checkpoint", ".txnindex"])
def test_what_a_log_determines_is_what_the_broker_wrote(
    story: _Story, suffix: str
) -> None:
    assert any(story.theirs.named(suffix).values())
    assert story.ours.named(suffix) == story.theirs.named(suffix)


def test_every_producer_that_the_broker_knows_is_as_it_knows_it(story: _Story) -> None:
    # It forgets one whose last record is a day old, when it starts; a log does not say.
    ours = story.ours.named(".snapshot")
    for name, theirs in story.theirs.named(".snapshot").items():
        producers = set(ProducerSnapshot.parse(ours[name]).producers)
        assert producers >= set(ProducerSnapshot.parse(theirs).producers), name


def test_the_broker_took_our_indexes_as_they_are(story: _Story) -> None:
    ours = {_name_in_cache(name): data for name, data in story.ours.files.items()}
    assert sum(map(len, story.cached.values())) > 1000
    for name, data in story.cached.items():
        assert data == ours.get(name, b""), name


@pytest.mark.parametrize("whose", ["theirs", "ours"])
def test_verify_finds_nothing_wrong(story: _Story, whose: str) -> None:
    tier: _Tier = getattr(story, whose)
    assert tier.verified.code == 0, tier.verified.text


def _create_topics(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    topics = [
        NewTopic(
            case.topic,
            1,
            1,
            config=_TOPIC | {"message.timestamp.type": case.timestamp_type},
        )
        for case in _CASES
    ]
    for made in admin.create_topics(topics).values():
        made.result(_SECONDS)


def _tier(broker: Broker, traffic: dict[str, Traffic]) -> None:
    """Produce, and return when all of it is in the tier and nowhere else."""
    for one in traffic.values():
        one.produce(broker.address)
    _await(lambda: all(_is_tiered(broker, topic) for topic in traffic))


def _is_tiered(broker: Broker, topic: str) -> bool:
    """Tell whether the broker's own disk has no record of a topic any more."""
    logs = (broker.logs / f"{topic}-0").glob("*.log")
    try:
        return [log.stat().st_size for log in logs] == [0]
    except FileNotFoundError:  # deleted just now
        return False


def _answers(broker: Broker, topic: str) -> bool:
    """Tell whether a broker that was started has learned what its tier holds."""
    try:
        return bool(ask(broker.address, topic, [0]).times)
    except KafkaException:
        return False


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not so in {_SECONDS} s")
        time.sleep(0.05)


def _times(storage: KafkaLocal, partition: TopicIdPartition) -> list[int]:
    stamps = timestamps_of(storage, partition)
    some = {0, *stamps[::_EVERY], max(stamps)}
    return sorted({time + later for time in some for later in (0, 1)})


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def _name_in_cache(name: str) -> str:
    """Return how the broker's cache calls a file of the tier."""
    start, rest = name.rpartition("/")[2].split("-", 1)
    return f"{int(start)}_{rest}"


def _verify(broker: Broker) -> Outcome:
    return run_process("verify", "--deep", str(broker.tier))
