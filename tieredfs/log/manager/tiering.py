"""What the tasks of a manager share."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tieredfs.log.journal.heartbeat import Heartbeat
from tieredfs.log.journal.led_partition import LedPartition
from tieredfs.log.manager.settings import ManagerSettings
from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.log.push.push_record import PushRecord
from tieredfs.model import UNKNOWN_TOPIC_ID, TopicIdPartition
from tieredfs.storage import RemoteStorageManager

__all__ = ["RunEndedError", "Tiering"]


class RunEndedError(Exception):
    """A run was asked to end, and has ended before its next change."""


@dataclass(frozen=True, slots=True)
class Tiering:
    """What the tasks of a manager share; safe to share between threads.

    Attributes:
        target: The tier.
        source: Where the logs are; None for topics that only the tier has.
        settings: How the manager works.
        heartbeat: Says that the manager is alive.
        now_ms: Returns the time, in milliseconds since 1970.
        record: The logs that were read before; None to read every log again after a
            restart.
        catalog: Lists and describes the segments of the tier.
    """

    target: RemoteStorageManager
    source: RemoteStorageManager | None
    settings: ManagerSettings
    heartbeat: Heartbeat
    now_ms: Callable[[], int]
    record: PushRecord | None
    catalog: SegmentCatalog = field(init=False)

    def __post_init__(self) -> None:
        """Create the catalog, without sending a request."""
        object.__setattr__(self, "catalog", SegmentCatalog(self.target))

    def led(self, partition: TopicIdPartition) -> LedPartition:
        """Read the journal of a partition, under the topic id that the tier keeps."""
        if not self.target.keeps_topic_ids:
            partition = replace(partition, topic_id=UNKNOWN_TOPIC_ID)
        return LedPartition(
            self.heartbeat, partition, is_only_writer=self.settings.single_writer
        )
