"""A topic that is in a tier and at brokers, to follow."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from support.fake_brokers import FakeBrokers, RecordedLog
from support.transactions import Step, put_tiered
from tieredfs import Follow, ObjectStore, RequestPolicy, Tier, Topic
from tieredfs.storage.layouts.kafka_local import KafkaLocal

__all__ = ["World", "world"]


@dataclass
class World:
    """A tier in memory, and the brokers whose segments it gets.

    Attributes:
        brokers: They.
        store: The tier.
        deadline: Seconds until brokers that do not answer are unavailable.
    """

    brokers: FakeBrokers
    store: ObjectStore = field(
        default_factory=lambda: ObjectStore(f"memory://follow-{uuid.uuid4().hex}")
    )
    deadline: float = 60.0

    def tier(self, number: int, *segments: int) -> None:
        """Copy closed segments of a partition to the tier."""
        log = self.brokers.logs[number]
        for index in segments:
            assert index < len(log.segments) - 1
            stem = f"{log.segments[index].start:020d}"
            for key, content in put_tiered(log).items():
                if stem in key:
                    own = key.replace("t-0-", f"t-{number}-")
                    self.store.put(own, content, overwrite=True)

    def expire(self, number: int, segment: int) -> None:
        """Delete a segment of a partition from the tier."""
        stem = f"{self.brokers.logs[number].segments[segment].start:020d}"
        prefix = f"t-{number}-"
        keys = [one.key for one in self.store.list(prefix)]
        self.store.delete([key for key in keys if stem in key])

    def topic(self) -> Topic:
        """Open the topic."""
        policy = RequestPolicy(deadline=self.deadline)
        return Tier(KafkaLocal(self.store.with_policy(policy))).topic("t")

    def follow(self, **options: object) -> Follow:
        """Follow the topic."""
        given = {"bootstrap": "broker:9092"} | options
        return self.topic().follow(**given)  # type: ignore[arg-type]


def world(*logs: Sequence[Step]) -> World:
    """Return brokers with these logs, one a partition, and an empty tier."""
    made = {number: RecordedLog(steps) for number, steps in enumerate(logs)}
    return World(FakeBrokers(made))
