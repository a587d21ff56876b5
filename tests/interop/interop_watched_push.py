"""``push --watch`` follows a real broker, is killed again and again, and loses nothing.

How long is produced is ``TIEREDFS_INTEROP_SECONDS``, a minute by default.
"""

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from cli.commands import run_process, start_process
from servers import Broker
from tieredfs import ObjectStore, Tier, TopicIdPartition
from tieredfs.log.partitions import without_internal
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject

SECONDS = float(os.environ.get("TIEREDFS_INTEROP_SECONDS", "60"))
PARTITIONS = {"plain": 12, "transactions": 6, "compacted": 2}
KEYS = 50
PER_SECOND = 40
"""Rounds of each producer."""

_TOPIC = {
    "retention.ms": "-1",
    "file.delete.delay.ms": "100",
    "index.interval.bytes": "256",
    "internal.segment.bytes": "32768",
}
_COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "600000",
}
_PATIENCE = 120.0


@dataclass(slots=True)
class Acknowledged:
    """What the broker has taken: values by partition and offset.

    Attributes:
        values: Of each offset.
        aborted: Numbers of the offsets whose transaction was aborted.
    """

    values: dict[tuple[str, int], dict[int, bytes]] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)

    def take(self, error: KafkaError | None, message: Message) -> None:
        """Note what became of a record."""
        topic, partition, offset = (
            message.topic(),
            message.partition(),
            message.offset(),
        )
        value = message.value()
        if error is not None or topic is None or partition is None or offset is None:
            self.lost.append(str(error))  # the broker was down: it may have been taken
            return
        assert isinstance(value, bytes)
        self.values.setdefault((topic, partition), {})[offset] = value


@dataclass(frozen=True, slots=True)
class Story:
    """What is left at the end, when the broker has ended.

    Attributes:
        logs: The broker's log directory.
        tier: What was pushed.
        acknowledged: What the broker has taken.
        kills: How often the process was killed.
        followed: What ``cat --follow`` has printed of the topic ``plain``.
    """

    logs: KafkaLog
    tier: SingleObject
    acknowledged: Acknowledged
    kills: int
    followed: list[dict[str, Any]]

    @property
    def partitions(self) -> list[TopicIdPartition]:
        """Return the partitions of the topics."""
        return without_internal(self.logs.list_partitions())

    def closed_end(self, partition: TopicIdPartition) -> int:
        """Return where the segments end that the broker has closed."""
        return self.logs.list_segments(partition)[-1].start_offset


class Killed:
    """The process, which is killed at random and started again."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._stop = threading.Event()
        self._chance = random.Random(19)  # noqa: S311 - no secret
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run)
        self.kills = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def kill_no_more(self) -> None:
        """Kill it no more, but leave one running."""
        self._stop.set()
        self._thread.join()
        self._process = self._start()

    def end(self) -> tuple[int, str]:
        """Ask it to end; return its exit code and what it said."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        _, err = self._process.communicate(timeout=60)
        return self._process.returncode, err.decode()

    def _start(self) -> subprocess.Popen[bytes]:
        return start_process(*self._arguments, stdout=subprocess.DEVNULL)

    def _run(self) -> None:
        while not self._stop.is_set():
            process = self._start()
            self._stop.wait(self._chance.uniform(1.5, 8.0))
            process.kill()
            process.communicate()
            self.kills += 1


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Produce while the log directory is pushed, and look when all has ended."""
    broker = Broker(tmp_path_factory.mktemp("kafka"))
    tier = tmp_path_factory.mktemp("tier")
    taken = Acknowledged()
    with broker:
        _create_topics(broker)
        command = ("push", str(broker.logs), str(tier), "--watch")
        with Killed(*command) as watched:
            with producing(broker, taken):
                target = SingleObject(ObjectStore(str(tier)))
                _await(lambda: bool(target.list_partitions("plain")))
                with following(broker, tier) as followed:
                    _wait(SECONDS / 2)
                    broker.stop()  # and its producers go on when it is back
                    broker.start()
                    _wait(SECONDS / 2)
            watched.kill_no_more()
            source = KafkaLog(ObjectStore(str(broker.logs)))
            for partition in without_internal(source.list_partitions()):
                _await(partial(_has_caught_up, source, target, partition))
            code, said = watched.end()
            assert code == -signal.SIGTERM, said
        broker.stop()
        yield Story(source, target, taken, watched.kills, followed)


def test_it_was_killed_while_the_broker_wrote(story: Story) -> None:
    assert story.kills > SECONDS / 12
    closed = [len(story.logs.list_segments(p)) - 1 for p in story.partitions]
    assert len(closed) == sum(PARTITIONS.values())
    assert min(closed) > 0
    assert sum(closed) > SECONDS


def test_every_closed_log_is_there_byte_for_byte_and_once(story: Story) -> None:
    for partition in story.partitions:
        if partition.topic == "compacted":
            continue
        theirs = [
            bytes(story.logs.fetch_log_segment(one))
            for one in story.logs.list_segments(partition)[:-1]
        ]
        stored = story.tier.list_segments(partition)
        assert [bytes(story.tier.fetch_log_segment(one)) for one in stored] == theirs
        for earlier, later in pairwise(stored):
            assert later.start_offset == (earlier.end_offset or 0) + 1


def test_every_acknowledged_record_is_there_once(story: Story) -> None:
    tier = Tier(story.tier)
    for (topic, number), values in story.acknowledged.values.items():
        partition = next(
            p for p in story.partitions if (p.topic, p.partition) == (topic, number)
        )
        end = story.closed_end(partition)
        table = tier.topic(topic).scan([number], columns=["offset", "value"]).to_table()
        offsets = table["offset"].to_pylist()
        assert max(Counter(offsets).values()) == 1
        found = dict(zip(offsets, table["value"].to_pylist(), strict=True))
        wanted = {offset: one for offset, one in values.items() if offset < end}
        if topic == "compacted":  # what the cleaner has left, which is enough
            assert _latest(found) == _latest_before(values, end)
            wanted = {offset: one for offset, one in wanted.items() if offset in found}
        assert wanted
        assert {offset: found.get(offset) for offset in wanted} == wanted


def test_each_record_was_followed_once(story: Story) -> None:
    found = Counter((one["partition"], one["offset"]) for one in story.followed)
    assert max(found.values()) == 1
    for number in range(PARTITIONS["plain"]):
        values = story.acknowledged.values["plain", number]
        mine = {
            one["offset"]: one["value"].encode()
            for one in story.followed
            if one["partition"] == number
        }
        # It was ended while the producers went on.
        assert max(mine) > min(values)
        wanted = {offset: one for offset, one in values.items() if offset <= max(mine)}
        assert {offset: mine.get(offset) for offset in wanted} == wanted


def test_verify_finds_nothing_wrong(story: Story) -> None:
    done = run_process("verify", story.tier.store.url, "--deep")
    assert done.code == 0, done.text


def test_nothing_is_left_over(story: Story) -> None:
    done = run_process("scrub", story.tier.store.url)
    assert done.code == 0, done.text


def _latest(records: dict[int, bytes]) -> dict[bytes, bytes]:
    """Return the last value of each key, which is the beginning of the value."""
    found: dict[bytes, bytes] = {}
    for offset in sorted(records):
        value = records[offset]
        found[value.split(b" ")[0]] = value
    return found


def _latest_before(values: dict[int, bytes], end: int) -> dict[bytes, bytes]:
    return _latest({offset: one for offset, one in values.items() if offset < end})


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
def producing(broker: Broker, taken: Acknowledged) -> Iterator[None]:
    """Produce to all partitions, with and without transactions, until it is left."""
    stop = threading.Event()
    errors: list[BaseException] = []

    def run(produce: Callable[[threading.Event], None]) -> None:
        try:
            produce(stop)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [
        threading.Thread(target=run, args=(one,))
        for one in (
            lambda stop: _produce(broker, taken, stop),
            lambda stop: _transact(broker, taken, stop),
        )
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


@contextmanager
def following(broker: Broker, tier: Path) -> Iterator[list[dict[str, Any]]]:
    """Follow a topic, from its first offset in the tier on, until it is left."""
    url, address = str(tier), broker.address
    options = ("--follow", "--bootstrap", address, "--format", "jsonl")
    found: list[dict[str, Any]] = []
    with start_process(
        "cat", url, "plain", *options, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        reader = threading.Thread(
            target=lambda out: found.extend(map(json.loads, out)),
            args=(process.stdout,),
        )
        reader.start()
        try:
            yield found
        finally:
            code = process.poll()
            process.send_signal(signal.SIGINT)
            reader.join()
    assert code is None  # it did not end by itself


def _settings(broker: Broker, **more: object) -> dict[str, object]:
    return {
        "bootstrap.servers": broker.address,
        "batch.num.messages": 20,
        "linger.ms": 5,
        "message.timeout.ms": 1000 * int(_PATIENCE),
        "log_level": 2,
        **more,
    }


def _produce(broker: Broker, taken: Acknowledged, stop: threading.Event) -> None:
    producer = Producer(_settings(broker, **{"enable.idempotence": True}))
    for number in count():
        if stop.is_set():
            break
        for topic in ("plain", "compacted"):
            for partition in range(PARTITIONS[topic]):
                key = b"%d" % (number % KEYS)
                producer.produce(
                    topic,
                    partition=partition,
                    key=key,
                    value=key + b" %d " % number + os.urandom(50).hex().encode(),
                    on_delivery=taken.take,
                )
        producer.poll(0)
        time.sleep(1 / PER_SECOND)
    producer.flush(_PATIENCE)


def _transact(broker: Broker, taken: Acknowledged, stop: threading.Event) -> None:
    numbers = count()
    while not stop.is_set():
        mine = {"transactional.id": "watched", "message.timeout.ms": 50_000}
        producer = Producer(_settings(broker, **mine))
        producer.init_transactions(_PATIENCE)
        try:
            while not stop.is_set():
                _transaction(producer, next(numbers), taken)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if not reason.fatal():  # such as for a transaction that timed out meanwhile
                raise


def _transaction(producer: Producer, number: int, taken: Acknowledged) -> None:
    """Produce a transaction, every third of which is aborted."""
    producer.begin_transaction()
    is_aborted = number % 3 == 0
    try:
        _produce_some(producer, number, taken)
    except KafkaException:  # the broker was away for too long
        is_aborted = True
    _end_transaction(
        producer.abort_transaction if is_aborted else producer.commit_transaction,
        producer.abort_transaction,
    )


def _produce_some(producer: Producer, number: int, taken: Acknowledged) -> None:
    """Produce some records to each partition, in a transaction."""
    for _ in range(5):
        for partition in range(PARTITIONS["transactions"]):
            producer.produce(
                "transactions",
                partition=partition,
                value=b"%d " % number + os.urandom(50).hex().encode(),
                on_delivery=taken.take,
            )
        producer.poll(0)
        time.sleep(1 / PER_SECOND)


def _end_transaction(
    end: Callable[[float], object], abort: Callable[[float], object]
) -> None:
    """End a transaction, however long the broker is away."""
    for _ in range(100):
        try:
            end(_PATIENCE)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.txn_requires_abort():
                end = abort
            elif not reason.retriable():
                raise
            time.sleep(0.2)
        else:
            return
    raise TimeoutError("a transaction did not end")


def _has_caught_up(
    source: KafkaLog, target: SingleObject, partition: TopicIdPartition
) -> bool:
    end = source.list_segments(partition)[-1].start_offset
    stored = target.list_segments(partition)
    return bool(stored) and max(one.end_offset or 0 for one in stored) == end - 1


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not so in {_PATIENCE} s")
        time.sleep(0.1)


def _wait(seconds: float) -> None:
    time.sleep(seconds)
