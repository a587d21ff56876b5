"""A storage of logs whose answers a test decides upon."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Self

from tieredfs import (
    ObjectStore,
    RequestPolicy,
    SegmentId,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.storage.layouts.kafka_local import KafkaLocal

__all__ = ["Logs", "log_segment"]

_PARTITION = TopicIdPartition("t", 0)


def log_segment(number: int, size: int) -> SegmentMetadata:
    """Return a segment of ten offsets."""
    identity = SegmentId.from_bytes((number + 1).to_bytes(16))
    return SegmentMetadata(
        _PARTITION, identity, number * 10, number * 10 + 9, size=size
    )


class Logs(KafkaLocal):
    """Logs of which byte ``n`` of segment ``s`` is ``(s + n) % 251``.

    Attributes:
        asked: How often each start of each segment was asked for.
        most: The largest number of concurrent requests.
        most_segments: The largest number of segments with concurrent requests.
        policies: Under which policies it was asked.
    """

    def __init__(
        self,
        answer: Callable[[int, int, int], None] = lambda *_: None,
        *,
        chunk: int = 1,
        policy: RequestPolicy | None = None,
    ) -> None:
        """Create them.

        Args:
            answer: Called with the segment's number, the start, and how often it was
                asked for; it may wait or raise an error.
            chunk: Answers end at a multiple of it.
            policy: That of the store.
        """
        super().__init__(ObjectStore("memory://logs", policy=policy or RequestPolicy()))
        self.answer, self.chunk = answer, chunk
        self.asked: Counter[tuple[int, int]] = Counter()
        self.most = self.most_segments = 0
        self.policies: set[RequestPolicy] = set()
        self.running: Counter[int] = Counter()
        self.lock = threading.Lock()

    def with_policy(self, policy: RequestPolicy) -> Self:
        """Note the policy, and stay what it is."""
        self.policies.add(policy)
        return self

    def fetch_log_ahead(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Answer as the test wants."""
        del layout
        number = metadata.start_offset // 10
        with self.lock:
            self.asked[number, start] += 1
            times = self.asked[number, start]
            self.running[number] += 1
            self.most = max(self.most, self.running.total())
            some = sum(count > 0 for count in self.running.values())
            self.most_segments = max(self.most_segments, some)
        try:
            self.answer(number, start, times)
        finally:
            with self.lock:
                self.running[number] -= 1
        end = min(-(-end // self.chunk) * self.chunk, metadata.size or 0)
        return self.content(number, start, end)

    @staticmethod
    def content(number: int, start: int, end: int) -> memoryview:
        """Return the bytes of a log."""
        return memoryview(bytes((number + n) % 251 for n in range(start, end)))
