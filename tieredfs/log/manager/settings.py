"""How a manager works, with Kafka's defaults."""

from dataclasses import dataclass
from typing import Final

from tieredfs.errors import InvalidArgumentError
from tieredfs.format.index.builder import INTERVAL_BYTES

__all__ = ["DEFAULT_SETTINGS", "ManagerSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSettings:
    """The settings of a manager.

    Attributes:
        interval: Seconds between two tasks of a partition, with a jitter of a fifth:
            Kafka's ``remote.log.manager.task.interval.ms``.
        threads: Maximum number of partitions that have a task at the same time: Kafka's
            ``remote.log.manager.copier.thread.pool.size``.
        delete_delay_ms: Milliseconds from when a segment has expired until it is
            deleted, for readers that have it open.
        max_idle: Seconds after which a led partition is looked at though nothing seems
            to have changed: another manager, or a command, may have changed it. A
            follower lists after four intervals.
        warmed_segments: Number of the last segments whose indexes a follower caches.
        interval_bytes: Minimum bytes of log between two entries of a rebuilt index.
        single_writer: Whether the caller vouches that no other manager is alive.
    """

    interval: float = 30.0
    threads: int = 10
    delete_delay_ms: int = 60_000
    max_idle: float = 3600.0
    warmed_segments: int = 2
    interval_bytes: int = INTERVAL_BYTES
    single_writer: bool = False

    def __post_init__(self) -> None:
        """Refuse settings with which nothing would be done.

        Raises:
            InvalidArgumentError: One is too small; the message names it.
        """
        for name, least in _MIN_VALUES.items():
            value = getattr(self, name)
            if not value >= least:
                raise InvalidArgumentError(f"{name} is {value!r}: give {least} or more")


_MIN_VALUES: Final = {
    "interval": 0.001,
    "threads": 1,
    "delete_delay_ms": 0,
    "max_idle": 0,
    "warmed_segments": 0,
    "interval_bytes": 1,
}

DEFAULT_SETTINGS: Final = ManagerSettings()
"""The settings of a manager that is given none."""
