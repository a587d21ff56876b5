"""What a topic is made of: a report of each of its partitions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tieredfs.errors import TieredFSError
from tieredfs.log.read.reader import TieredReader
from tieredfs.log.report.partition_report import PartitionReport
from tieredfs.log.report.read_report import read_report
from tieredfs.log.report.sums import known_sum

__all__ = ["TopicReport", "report_topic"]

_MAX_LOG_BYTES: Final = 256 << 20
"""Bytes of a topic's logs on this machine that are read: a second or two."""


@dataclass(frozen=True, slots=True)
class TopicReport:
    """What one topic is made of, as far as it can be read.

    Attributes:
        name: Its name.
        topic_id: Its id in Kafka; all ``A`` when unknown.
        partitions: Its partitions, sorted by number.
    """

    name: str
    topic_id: str
    partitions: tuple[PartitionReport, ...]

    @property
    def errors(self) -> list[TieredFSError]:
        """Why some of it is missing or cannot be read."""
        return [error for one in self.partitions for error in one.errors]

    @property
    def size(self) -> int | None:
        """Bytes of the logs; None if that of a segment is not known."""
        return known_sum(one.size for one in self.partitions)

    @property
    def epochs(self) -> list[int]:
        """The leader epochs of its segments, sorted; -1 where one is not known."""
        return sorted(
            {
                span.epoch
                for partition in self.partitions
                for segment in partition.segments
                for span in segment.epochs
            }
        )


def report_topic(
    name: str,
    topic_id: str,
    readers: Sequence[TieredReader],
    *,
    progress: Callable[[PartitionReport], object] = lambda _: None,
) -> TopicReport:
    """Read the report of a topic, several partitions concurrently.

    Args:
        name: The topic's name.
        topic_id: Its id.
        readers: The readers of its partitions, of one tier, sorted by number.
        progress: Called with each partition's report, from several threads.

    Raises:
        StorageUnavailableError: The store failed in all attempts of its policy.
        DeadlineExceededError: The store did not answer in time.
    """

    def read(reader: TieredReader) -> PartitionReport:
        report = read_report(reader, max_log_bytes=_MAX_LOG_BYTES // len(readers))
        progress(report)
        return report

    reports = readers[0].calls.map(read, readers) if readers else []
    return TopicReport(name, topic_id, tuple(reports))
