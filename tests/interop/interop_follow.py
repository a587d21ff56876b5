"""``cat --follow`` beside a real broker: each record once, from both places.

The topics are produced to and pushed all the while. The broker is stopped, and killed,
and deletes what the tier has; one reader falls behind that on purpose.
"""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from cli.commands import start_process
from servers import Broker
from tieredfs import Follow, Topic, open_tier

PARTITIONS = {"plain": 3, "transactions": 2, "compacted": 1}
KEYS = 20
ISOLATIONS = ("read_uncommitted", "read_committed")

_TOPIC = {
    "retention.ms": "-1",
    "file.delete.delay.ms": "100",
    "index.interval.bytes": "256",
    "internal.segment.bytes": "16384",
}
_COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
}
_PATIENCE = 120.0
_EACH_SECONDS = 4.0
"""How long is produced before the next thing happens."""

Values = dict[int, dict[int, str]]
"""Values of records, by partition and offset."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a reader has printed.

    Attributes:
        records: Partition, offset and value of each record, in this order.
        code: How it ended when it was interrupted.
        said: What it wrote to standard error.
    """

    records: list[tuple[int, int, str]]
    code: int
    said: str

    def of(self, partition: int) -> list[tuple[int, str]]:
        """Return offset and value of the records of a partition, in their order."""
        return [(offset, value) for p, offset, value in self.records if p == partition]


@dataclass(frozen=True, slots=True)
class Story:
    """What has happened.

    Attributes:
        seen: What ``cat --follow`` has printed, by topic and isolation.
        truth: What Kafka's own client has read, by topic and isolation.
        behind: The offsets of ``plain`` that a reader which had fallen behind has read.
        deleted: How far the broker had deleted ``plain`` by then.
        handed_over: Where the tier ended when that reader began.
    """

    seen: dict[tuple[str, str], Seen]
    truth: dict[tuple[str, str], Values]
    behind: dict[int, list[int]]
    deleted: dict[int, int]
    handed_over: dict[int, int]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Produce, push and follow, while the broker stops, dies and deletes."""
    broker = Broker(tmp_path_factory.mktemp("kafka"))
    tier, answers = tmp_path_factory.mktemp("tier"), tmp_path_factory.mktemp("seen")
    with broker, ExitStack() as pushing:
        _create_topics(broker)
        pushing.enter_context(_pushing(broker, tier))
        with _producing(broker):
            _await(lambda: _is_tiered(tier))
            readers = {
                (topic, isolation): _cat(broker, tier, answers, topic, isolation)
                for topic in PARTITIONS
                for isolation in ISOLATIONS
            }
            plain = open_tier(str(tier)).topic("plain")
            handed_over = plain.end_offsets()
            behind = plain.follow(bootstrap=broker.address)
            first = next(behind)  # and no more for a while
            time.sleep(_EACH_SECONDS)
            broker.stop()
            broker.start()
            time.sleep(_EACH_SECONDS)
            broker.kill()
            broker.start()
            time.sleep(_EACH_SECONDS)
            before = _consumed(broker, "plain", "read_uncommitted")
            deleted = _delete(broker, plain)
            time.sleep(_EACH_SECONDS)
        truth = {
            (topic, isolation): _consumed(broker, topic, isolation)
            for topic in PARTITIONS
            for isolation in ISOLATIONS
        }
        for isolation in ISOLATIONS:  # of which there is no transaction
            for number, values in truth["plain", isolation].items():
                truth["plain", isolation][number] = before[number] | values
        late = _offsets(behind, first, truth["plain", "read_uncommitted"])
        seen = {
            key: _end(reader, truth[key], is_whole=key[0] != "compacted")
            for key, reader in readers.items()
        }
    return Story(seen, truth, late, deleted, handed_over)


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("topic", ["plain", "transactions"])
def test_each_record_is_seen_once_and_in_order(
    story: Story, topic: str, isolation: str
) -> None:
    seen, truth = story.seen[topic, isolation], story.truth[topic, isolation]
    assert len(truth) == PARTITIONS[topic]
    for number, values in truth.items():
        assert len(values) > 100
        assert seen.of(number) == sorted(values.items())


def test_aborted_records_are_seen_only_where_they_are_wanted(story: Story) -> None:
    every, committed = (
        len(story.seen["transactions", isolation].records) for isolation in ISOLATIONS
    )
    assert every > committed > 0


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_of_a_compacted_topic_nothing_that_is_left_is_missed(
    story: Story, isolation: str
) -> None:
    records = story.seen["compacted", isolation].of(0)
    offsets = [offset for offset, _ in records]
    assert offsets == sorted(set(offsets))
    assert story.truth["compacted", isolation][0].items() <= dict(records).items()


def test_a_reader_that_falls_behind_the_broker_goes_back_to_the_tier(
    story: Story,
) -> None:
    for number, offsets in story.behind.items():
        assert story.handed_over[number] < story.deleted[number]
        truth = story.truth["plain", "read_uncommitted"][number]
        assert offsets == sorted(truth)


def test_ctrl_c_ends_it_as_any_other_command(story: Story) -> None:
    for seen in story.seen.values():
        assert (seen.code, seen.said) == (130, "tieredfs: interrupted\n")


def _create_topics(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    topics = [
        NewTopic(
            name,
            number,
            1,
            config=_TOPIC | (_COMPACTED if name == "compacted" else {}),
        )
        for name, number in PARTITIONS.items()
    ]
    for made in admin.create_topics(topics).values():
        made.result(_PATIENCE)


@contextmanager
def _pushing(broker: Broker, tier: Path) -> Iterator[None]:
    command = ("push", str(broker.logs), str(tier), "--watch")
    with start_process(*command, stdout=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


@contextmanager
def _producing(broker: Broker) -> Iterator[None]:
    """Produce to all topics until it is left, with and without transactions."""
    stop = threading.Event()
    errors: list[BaseException] = []

    def run(produce: Callable[[Broker, threading.Event], None]) -> None:
        try:
            produce(broker, stop)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [
        threading.Thread(target=run, args=(one,)) for one in (_produce, _transact)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not errors


def _settings(broker: Broker, **more: object) -> dict[str, object]:
    return {
        "bootstrap.servers": broker.address,
        "batch.num.messages": 20,
        "linger.ms": 5,
        "log_level": 2,
        **more,
    }


def _produce(broker: Broker, stop: threading.Event) -> None:
    producer = Producer(_settings(broker, **{"enable.idempotence": True}))
    for number in count():
        if stop.wait(0.02):
            break
        for topic in ("plain", "compacted"):
            for partition in range(PARTITIONS[topic]):
                producer.produce(
                    topic,
                    partition=partition,
                    key=b"%d" % (number % KEYS),
                    value=_value(number),
                )
        producer.poll(0)
    assert not producer.flush(_PATIENCE)


def _transact(broker: Broker, stop: threading.Event) -> None:
    """Commit every other transaction, and abort the others."""
    mine = {"transactional.id": "followed", "message.timeout.ms": 50_000}
    producer = Producer(_settings(broker, **mine))
    producer.init_transactions(_PATIENCE)
    for number in count():
        if stop.wait(0.02):
            break
        producer.begin_transaction()
        for _ in range(3):
            for partition in range(PARTITIONS["transactions"]):
                producer.produce(
                    "transactions", partition=partition, value=_value(number)
                )
        producer.flush(_PATIENCE)  # an abort drops what was not sent
        is_aborted = number % 2 == 0
        _end_transaction(
            producer.abort_transaction if is_aborted else producer.commit_transaction,
            producer.abort_transaction,
        )


def _end_transaction(
    end: Callable[[float], object], abort: Callable[[float], object]
) -> None:
    """End a transaction, however long the broker is away."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            end(_PATIENCE)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.txn_requires_abort():
                end = abort
            elif not reason.retriable() or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


def _value(number: int) -> bytes:
    return b"%d " % number + b"x" * 100


def _is_tiered(tier: Path) -> bool:
    """Return whether each partition has some segments in the tier."""
    try:
        topics = [open_tier(str(tier)).topic(name) for name in PARTITIONS]
    except FileNotFoundError:
        return False
    return all(
        len(topic.partitions) == PARTITIONS[topic.name]
        and min(topic.end_offsets().values()) > 100
        for topic in topics
    )


@dataclass(frozen=True, slots=True)
class Reader:
    """A ``cat --follow`` that runs.

    Attributes:
        process: It.
        file: What it prints to.
    """

    process: subprocess.Popen[bytes]
    file: Path

    def records(self) -> list[tuple[int, int, str]]:
        """Return what it has printed; each line is whole."""
        *lines, last = self.file.read_bytes().split(b"\n")
        assert last == b""
        rows = map(json.loads, lines)
        return [(row["partition"], row["offset"], row["value"]) for row in rows]


def _cat(
    broker: Broker, tier: Path, answers: Path, topic: str, isolation: str
) -> Reader:
    file = answers / f"{topic}-{isolation}"
    options = ["--follow", "--bootstrap", broker.address, "--format", "jsonl"]
    if isolation == "read_committed":
        options.append("--committed")
    with file.open("wb") as out:
        process = start_process("cat", str(tier), topic, *options, stdout=out.fileno())
    return Reader(process, file)


def _end(reader: Reader, truth: Values, *, is_whole: bool) -> Seen:
    """Interrupt a reader when it has seen all, or has ended by itself."""
    last = {number: max(values) for number, values in truth.items()}
    wanted = sum(map(len, truth.values()))

    def has_all() -> bool:
        if reader.process.poll() is not None:
            return True
        found = reader.records()
        reached = {number: offset for number, offset, _ in found}
        return reached == last and (not is_whole or len(found) >= wanted)

    try:
        _await(has_all)
        reader.process.send_signal(signal.SIGINT)
        _, err = reader.process.communicate(timeout=60)
    finally:
        reader.process.kill()
    return Seen(reader.records(), reader.process.returncode, err.decode())


def _delete(broker: Broker, topic: Topic) -> dict[int, int]:
    """Have the broker delete what the tier has, and return up to where."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    ends = topic.end_offsets()
    asked = [TopicPartition(topic.name, number, end) for number, end in ends.items()]
    for done in admin.delete_records(asked).values():
        done.result(_PATIENCE)
    return ends


def _consumed(broker: Broker, topic: str, isolation: str) -> Values:
    """Return what Kafka's own client reads of a topic, from where it begins."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "witness",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 2,
        }
    )
    found: Values = {number: {} for number in range(PARTITIONS[topic])}
    left = set(found)
    consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in found])
    try:
        while left:
            message = consumer.poll(_PATIENCE)
            assert message is not None
            number, offset = message.partition(), message.offset()
            assert number is not None
            assert offset is not None
            error = message.error()
            if error is None:
                value = message.value()
                assert value is not None
                found[number][offset] = value.decode()
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(number)
            elif not error.retriable():
                raise KafkaException(error)
    finally:
        consumer.close()
    return found


def _offsets(
    follow: Follow, first: pa.RecordBatch, truth: Values
) -> dict[int, list[int]]:
    """Return the offsets that a reader gets up to the last ones, in good time."""
    found: dict[int, list[int]] = {number: [] for number in truth}
    ends = {number: max(values) + 1 for number, values in truth.items()}
    too_late = threading.Timer(_PATIENCE, follow.close)
    too_late.start()
    with follow:
        for batch in chain([first], follow):
            (number,) = set(batch["partition"].to_pylist())
            found[number] += batch["offset"].to_pylist()
            if follow.positions == ends:
                break
    too_late.cancel()
    return found


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not so in {_PATIENCE} s")
        time.sleep(0.1)
