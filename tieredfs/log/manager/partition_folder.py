"""Whether a partition's folder has changed, for the price of one look at it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tieredfs.model import TopicIdPartition
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.layouts.kafka_log import KafkaLog

__all__ = ["PartitionFolder"]

_MIN_AGE_NS: Final = 4_000_000_000
"""Least nanoseconds since a folder's last change, so that a later one gives it another
time: twice the step of the coarsest clock."""


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """The folder of a partition in a broker's log directory on this machine.

    Attributes:
        path: Its path.
        clock: Returns the disk's time in nanoseconds since 1970.
    """

    path: Path
    clock: Callable[[], int] = time.time_ns

    @classmethod
    def of(
        cls, source: RemoteStorageManager | None, partition: TopicIdPartition
    ) -> Self | None:
        """Return the folder of a partition; None where a log has none here."""
        if not isinstance(source, KafkaLog):
            return None
        root = source.store.local_path
        return None if root is None else cls(root / str(partition))

    def version(self) -> int | None:
        """Return a number that changes when a file of the folder comes or goes.

        A log that grows does not change it: its segment is closed when the next one
        begins.

        Returns:
            None if that is not known: the folder has changed just now, or is gone.
        """
        try:
            changed = self.path.stat().st_mtime_ns
        except OSError:
            return None
        return changed if changed + _MIN_AGE_NS <= self.clock() else None
